package planes

import (
	"slices"

	"portolan.dev/faults/lab"
	"portolan.dev/portolan/e2e/labtest"
)

// Watchers returns a watcher of each node of a lab that has an nftables or userspace plane. Other
// planes cannot be read.
func Watchers(l *lab.Lab) []*Watcher {
	var all []*Watcher
	for _, n := range l.Nodes {
		kernel := map[string]func([]Frontend) (Content, error){"nftables": Nftables, "userspace": Sockets}[n.ProxyMode]
		if kernel == nil {
			continue
		}
		all = append(all, &Watcher{
			Node: n.Name, Addresses: n.Addresses[:], Agent: l.Agent(n), PID: n.PID, FrontendsOnly: n.ProxyMode == "userspace",
			ServiceCIDRs: slices.Concat(labtest.Services[:], labtest.Balanced[:], labtest.External[:]),
			NodePorts:    [2]uint16{30000, 32767},
			Kernel: func(expected []Frontend) (content Content, err error) {
				err = n.Namespace.Do(func() error {
					content, err = kernel(expected)
					return err
				})
				return content, err
			},
		})
	}
	return all
}
