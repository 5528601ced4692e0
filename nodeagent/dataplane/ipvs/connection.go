package ipvs

import (
	"errors"
	"fmt"
	"io"

	moby "github.com/moby/ipvs"
	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"portolan.dev/nodeagent/dataplane/ipvs/batch"
)

// connection reaches the kernel's IPVS by the library's handle, and by batches for many changes and backends.
type connection struct {
	handle handle
	batch  batcher
}

// handle is the part of the library's Handle that is used.
type handle interface {
	NewService(s *moby.Service) error
	UpdateService(s *moby.Service) error
	DelService(s *moby.Service) error
	NewDestination(s *moby.Service, d *moby.Destination) error
	UpdateDestination(s *moby.Service, d *moby.Destination) error
	DelDestination(s *moby.Service, d *moby.Destination) error
	GetService(s *moby.Service) (*moby.Service, error)
	GetServices() ([]*moby.Service, error)
	GetConfig() (*moby.Config, error)
	SetConfig(c *moby.Config) error
	Close()
}

// batcher is implemented by batch.Conn.
type batcher interface {
	Do(changes []batch.Change) []error
	Destinations(services []moby.Service) ([][]moby.Destination, error)
	Counters() ([]batch.Counted, error)
	Close()
}

// connect opens a connection in the network namespace at a path. If the path is empty, it uses the
// namespace of the process. The library looks up the kernel's IPVS once in a process and keeps the
// result even if the kernel has no IPVS, so the batch is opened first.
func connect(namespace string) (*connection, error) {
	b, err := batch.Open(namespace, answerTimeout)
	if err != nil {
		return nil, err
	}
	// The library logs only that it cannot load the module, which is loaded already.
	logrus.SetOutput(io.Discard)
	h, err := moby.New(namespace)
	if err != nil {
		b.Close()
		return nil, fmt.Errorf("IPVS socket: %w", err)
	}
	c := &connection{handle: h, batch: b}
	if _, err := h.GetConfig(); errors.Is(err, unix.ENOENT) {
		c.close()
		return nil, errors.New("the module ip_vs was loaded again after this process had used it: start the process again")
	}
	return c, nil
}

// close closes the sockets. It does nothing if c is nil.
func (c *connection) close() {
	if c != nil {
		c.handle.Close()
		c.batch.Close()
	}
}

// change carries out one change by the library's handle.
func (c *connection) change(change *batch.Change) error {
	s, d := &change.Service, &change.Destination
	switch change.Command {
	case batch.NewService:
		return c.handle.NewService(s)
	case batch.UpdateService:
		return c.handle.UpdateService(s)
	case batch.DelService:
		return c.handle.DelService(s)
	case batch.NewDestination:
		return c.handle.NewDestination(s, d)
	case batch.UpdateDestination:
		return c.handle.UpdateDestination(s, d)
	}
	return c.handle.DelDestination(s, d)
}
