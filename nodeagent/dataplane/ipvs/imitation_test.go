package ipvs

import (
	"net/netip"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	moby "github.com/moby/ipvs"
	"golang.org/x/sys/unix"

	"portolan.dev/nodeagent/dataplane/ipvs/batch"
	"portolan.dev/nodeagent/dataplane/kernel"
	"portolan.dev/nodeagent/plan"
)

// imitation is a kernel that keeps virtual servers and can be made to fail. Connections to it behave
// like the library's handle and a batch.
type imitation struct {
	mu       sync.Mutex
	settings map[plan.Frontend]kernel.Settings
	backends map[plan.Frontend]map[netip.AddrPort]uint32
	sent     int // changes that arrived
	opened   int // connections

	// lose is the number of sends with lost answers, as with a full buffer.
	lose int
	// mute is the number of sends that are ignored and never answered.
	mute int
	// silent is the number of sends that are carried out and never answered.
	silent int
	// hang blocks the next send until it is closed.
	hang chan struct{}
	// refuse returns the error of a change.
	refuse func(c *batch.Change) error
}

func newImitation() *imitation {
	return &imitation{settings: map[plan.Frontend]kernel.Settings{}, backends: map[plan.Frontend]map[netip.AddrPort]uint32{}}
}

// session returns a session that is connected to the imitation. Its timeout is short, but every
// answer that comes is sent at once.
func (k *imitation) session(t *testing.T) *session {
	s := &session{timeout: 300 * time.Millisecond, toEnd: 10 * time.Second, open: func() (*connection, error) {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.opened++
		return &connection{handle: &imitationHandle{kernel: k, closed: make(chan struct{})}, batch: imitationBatch{k}}, nil
	}}
	if err := s.connect(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	return s
}

// send begins a send. It returns whether its changes are carried out, and the error that all of them
// have instead of their own.
func (k *imitation) send() (carriedOut bool, instead error) {
	k.mu.Lock()
	hang := k.hang
	k.hang = nil
	k.mu.Unlock()
	if hang != nil {
		<-hang
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.mute > 0:
		k.mute--
		return false, batch.ErrTimeout
	case k.silent > 0:
		k.silent--
		return true, batch.ErrTimeout
	case k.lose > 0:
		k.lose--
		return true, batch.ErrLost
	}
	return true, nil
}

// carryOut carries out a change.
func (k *imitation) carryOut(c *batch.Change) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sent++
	if k.refuse != nil {
		if err := k.refuse(c); err != nil {
			return err
		}
	}
	id, backend := frontendOf(&c.Service), netip.AddrPort{}
	if c.Command >= batch.NewDestination {
		backend = addrOf(&c.Destination)
	}
	_, there := k.settings[id]
	_, behind := k.backends[id][backend]
	switch {
	case c.Command == batch.NewService && there, c.Command == batch.NewDestination && behind:
		return unix.EEXIST
	case c.Command != batch.NewService && !there:
		return unix.ESRCH
	case (c.Command == batch.UpdateDestination || c.Command == batch.DelDestination) && !behind:
		return unix.ENOENT
	}
	switch c.Command {
	case batch.NewService:
		k.settings[id], k.backends[id] = settingsOf(&c.Service), map[netip.AddrPort]uint32{}
	case batch.UpdateService:
		k.settings[id] = settingsOf(&c.Service)
	case batch.DelService:
		delete(k.settings, id)
		delete(k.backends, id)
	case batch.NewDestination, batch.UpdateDestination:
		k.backends[id][backend] = uint32(c.Destination.Weight)
	case batch.DelDestination:
		delete(k.backends[id], backend)
	}
	return nil
}

// imitationBatch sends many changes at a time.
type imitationBatch struct{ kernel *imitation }

// Close implements batcher.
func (imitationBatch) Close() {}

// Counters implements batcher.
func (imitationBatch) Counters() ([]batch.Counted, error) { return nil, nil }

// Destinations implements batcher.
func (b imitationBatch) Destinations(services []moby.Service) ([][]moby.Destination, error) {
	if _, instead := b.kernel.send(); instead != nil {
		return nil, instead
	}
	b.kernel.mu.Lock()
	defer b.kernel.mu.Unlock()
	out := make([][]moby.Destination, len(services))
	for i := range services {
		for addr, weight := range b.kernel.backends[frontendOf(&services[i])] {
			out[i] = append(out[i], destination(addr, weight))
		}
	}
	return out, nil
}

// Do implements batcher.
func (b imitationBatch) Do(changes []batch.Change) (errs []error) {
	for together := range slices.Chunk(changes, batch.Size) {
		carriedOut, instead := b.kernel.send()
		for i := range together {
			var err error
			if carriedOut {
				err = b.kernel.carryOut(&together[i])
			}
			if instead != nil {
				err = instead
			}
			errs = append(errs, err)
		}
		if instead == batch.ErrTimeout {
			return append(errs, slices.Repeat([]error{batch.ErrTimeout}, len(changes)-len(errs))...)
		}
	}
	return errs
}

// imitationHandle sends single changes and reads. It waits for answers until it is closed.
type imitationHandle struct {
	kernel *imitation
	once   sync.Once
	closed chan struct{}
}

// Close implements handle.
func (h *imitationHandle) Close() { h.once.Do(func() { close(h.closed) }) }

// answer returns the library's error for the end of a send.
func (h *imitationHandle) answer(instead, err error) error {
	switch instead {
	case batch.ErrTimeout:
		<-h.closed
		return os.ErrClosed
	case batch.ErrLost:
		return unix.ENOBUFS
	}
	return err
}

func (h *imitationHandle) change(command batch.Command, s *moby.Service, d *moby.Destination) error {
	c := batch.Change{Command: command, Service: *s}
	if d != nil {
		c.Destination = *d
	}
	carriedOut, instead := h.kernel.send()
	var err error
	if carriedOut {
		err = h.kernel.carryOut(&c)
	}
	return h.answer(instead, err)
}

// NewService implements handle.
func (h *imitationHandle) NewService(s *moby.Service) error {
	return h.change(batch.NewService, s, nil)
}

// UpdateService implements handle.
func (h *imitationHandle) UpdateService(s *moby.Service) error {
	return h.change(batch.UpdateService, s, nil)
}

// DelService implements handle.
func (h *imitationHandle) DelService(s *moby.Service) error {
	return h.change(batch.DelService, s, nil)
}

// NewDestination implements handle.
func (h *imitationHandle) NewDestination(s *moby.Service, d *moby.Destination) error {
	return h.change(batch.NewDestination, s, d)
}

// UpdateDestination implements handle.
func (h *imitationHandle) UpdateDestination(s *moby.Service, d *moby.Destination) error {
	return h.change(batch.UpdateDestination, s, d)
}

// DelDestination implements handle.
func (h *imitationHandle) DelDestination(s *moby.Service, d *moby.Destination) error {
	return h.change(batch.DelDestination, s, d)
}

// GetService implements handle.
func (h *imitationHandle) GetService(s *moby.Service) (*moby.Service, error) {
	_, instead := h.kernel.send()
	if err := h.answer(instead, nil); err != nil {
		return nil, err
	}
	h.kernel.mu.Lock()
	defer h.kernel.mu.Unlock()
	id := frontendOf(s)
	settings, ok := h.kernel.settings[id]
	if !ok {
		return nil, unix.ESRCH
	}
	c := changeOf(&kernel.Op{Kind: kernel.AddServer, ID: kernel.ID{Frontend: id, For: id}, Settings: settings})
	return &c.Service, nil
}

// GetServices implements handle.
func (h *imitationHandle) GetServices() ([]*moby.Service, error) { return nil, nil }

// GetConfig implements handle.
func (h *imitationHandle) GetConfig() (*moby.Config, error) { return &moby.Config{}, nil }

// SetConfig implements handle.
func (h *imitationHandle) SetConfig(*moby.Config) error { return nil }
