package ipvs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	moby "github.com/moby/ipvs"

	"portolan.dev/nodeagent/dataplane/host"
	"portolan.dev/nodeagent/dataplane/kernel"
)

// The mark of a virtual server of the plane: the upper half of its flags, by which the plane recognises the
// server if the journal is lost. The kernel keeps all flags of a service and gives a meaning to the lowest six
// only. Servers that former releases have added bear no mark until they are changed.
const (
	mark     = 0x706f0000
	markMask = 0xffff0000
)

func marked(s *moby.Service) bool { return s.FWMark == 0 && s.Flags&markMask == mark }

// own returns the marked virtual servers of the namespace.
func (s *session) own() ([]kernel.ID, error) {
	list, err := call(s, answersPerCall*s.timeout, func(c *connection) ([]*moby.Service, error) { return c.handle.GetServices() })
	if err != nil {
		return nil, fmt.Errorf("read virtual servers: %w", err)
	}
	var ids []kernel.ID
	for _, found := range list {
		if marked(found) {
			at := frontendOf(found)
			ids = append(ids, kernel.ID{Frontend: at, For: at})
		}
	}
	return ids, nil
}

// Own implements kernel.Balancer.
func (b *balancer) Own() ([]kernel.ID, error) { return b.reader.own() }

// HasState reports whether a namespace has virtual servers of the plane. It does not load the kernel's module.
func HasState(namespace string) (bool, error) {
	err := host.Within(namespace, func() error {
		_, err := os.Stat("/proc/thread-self/net/ip_vs")
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	s, err := newSession(namespace)
	if err != nil {
		return false, err
	}
	defer s.close()
	ids, err := s.own()
	return len(ids) > 0, err
}
