package serve

import (
	"sync"

	"portolan.dev/services/object"
)

// judged holds the services with new verdicts of health checks about their backends. It has a lock of its own,
// because checks report while the server's lock is held. The zero value is empty.
type judged struct {
	mu    sync.Mutex
	names map[object.Name]struct{} // guarded by mu
}

func (j *judged) add(name object.Name) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.names == nil {
		j.names = map[object.Name]struct{}{}
	}
	j.names[name] = struct{}{}
}

// take returns the services that were added since the last call.
func (j *judged) take() map[object.Name]struct{} {
	j.mu.Lock()
	defer j.mu.Unlock()
	names := j.names
	j.names = nil
	return names
}
