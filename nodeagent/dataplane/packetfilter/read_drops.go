package packetfilter

import (
	"errors"
	"os"

	"github.com/mdlayher/netlink"

	"portolan.dev/nodeagent/dataplane/netfilter"
)

// ReadDrops reads the numbers of dropped packets of a namespace from the kernel. Frontends without
// dropped packets are left out. The result is empty if the kernel cannot count.
func ReadDrops(netns string) ([]Drop, error) {
	var found []Drop
	err := netfilter.ReadLists(netns, func(conn *netlink.Conn) error {
		found = nil
		for set := range dropping {
			for _, v6 := range []bool{false, true} {
				err := netfilter.ReadElements(conn, familyOf(v6), filterTable, string(set), func(m netfilter.Member) {
					if at, ok := frontendOf(m.Key, v6); ok && m.Packets > 0 {
						found = append(found, Drop{Frontend: at, Set: set, Reason: dropping[set], Packets: m.Packets})
					}
				})
				if err != nil && !errors.Is(err, os.ErrNotExist) {
					return err
				}
			}
		}
		return nil
	})
	return found, err
}
