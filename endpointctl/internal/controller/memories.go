package controller

import (
	"sync"

	"portolan.dev/services/object"

	"portolan.dev/endpointctl/internal/packing"
)

// memories holds the memories of the services that have many pods. It is safe for concurrent use.
type memories struct {
	mu  sync.Mutex
	all map[object.Name]*packing.Memory // guarded by mu; each is used by one sync at a time
}

// of returns the memory of a service. It does not keep the memory of a service with few pods.
func (m *memories) of(key object.Name, pods int) *packing.Memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	memory := m.all[key]
	switch {
	case pods < packing.RememberedPods:
		delete(m.all, key)
		return &packing.Memory{}
	case memory == nil:
		memory = &packing.Memory{}
		m.all[key] = memory
	}
	return memory
}

func (m *memories) forget(key object.Name) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.all, key)
}

func (m *memories) reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.all)
}
