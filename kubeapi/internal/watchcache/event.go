package watchcache

import (
	"sync"

	"portolan.dev/services/object"
)

// Event is a change of one object, or the creation of an existing object in a list. Its objects are shared
// and never change.
type Event struct {
	Revision uint64
	// Old is the object before the change, nil if the change created it.
	Old object.Object
	// New is the object after the change, nil if the change deleted it.
	New object.Object

	forms *forms

	mu      sync.Mutex
	encoded map[string][]byte // guarded by mu
}

// Encoded returns the encoded form of the event with the given name. All watches share it. encode is called if
// the event does not have the form yet.
func (e *Event) Encoded(name string, encode func() ([]byte, error)) ([]byte, error) {
	form, added, err := e.form(name, encode)
	if added {
		e.forms.add(e, name, len(form))
	}
	return form, err
}

// form returns a form, and reports whether it is new.
func (e *Event) form(name string, encode func() ([]byte, error)) (form []byte, added bool, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if form, ok := e.encoded[name]; ok {
		return form, false, nil
	}
	if form, err = encode(); err != nil {
		return nil, false, err
	}
	if e.encoded == nil {
		e.encoded = map[string][]byte{}
	}
	e.encoded[name] = form
	return form, true, nil
}

// forget drops a form.
func (e *Event) forget(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.encoded, name)
}
