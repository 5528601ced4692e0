package watchcache

import (
	"sync"

	"portolan.dev/services/object"
)

// sharedEvents is the number of the newest changes of each kind that keep their encoded forms. Watches
// are at the end of the history, except for a moment after they have begun.
const sharedEvents = 256

// Event is a change of one object. Its objects are shared and never change.
type Event struct {
	Revision uint64
	// Old is the object before the change, nil if the change created it.
	Old object.Object
	// New is the object after the change, nil if the change deleted it.
	New object.Object

	mu      sync.Mutex
	old     bool // the event is not among the newest
	encoded map[string][]byte
}

// Encoded returns the form of the event with a name, which all watches share. encode makes it for the
// first of them.
func (e *Event) Encoded(name string, encode func() ([]byte, error)) ([]byte, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if form, ok := e.encoded[name]; ok {
		return form, nil
	}
	form, err := encode()
	if err != nil || e.old {
		return form, err
	}
	if e.encoded == nil {
		e.encoded = map[string][]byte{}
	}
	e.encoded[name] = form
	return form, nil
}

// forget drops the encoded forms.
func (e *Event) forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.old, e.encoded = true, nil
}
