package kernel

import (
	"github.com/google/nftables"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// CountRules counts the rules of each chain of a table in a namespace. It asks
// the kernel itself: the library cannot read all the rules that it can write.
func CountRules(netns string, t *nftables.Table) (map[string]int, error) {
	var conn *netlink.Conn
	err := Within(netns, func() (err error) {
		conn, err = netlink.Dial(unix.NETLINK_NETFILTER, nil)
		return err
	})
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	table, err := netlink.MarshalAttributes([]netlink.Attribute{{Type: unix.NFTA_RULE_TABLE, Data: []byte(t.Name + "\x00")}})
	if err != nil {
		return nil, err
	}
	const subsystem = netlink.HeaderType(unix.NFNL_SUBSYS_NFTABLES << 8)
	found, err := conn.Execute(netlink.Message{
		Header: netlink.Header{Type: subsystem | unix.NFT_MSG_GETRULE, Flags: netlink.Request | netlink.Dump},
		Data:   append([]byte{byte(t.Family), unix.NFNETLINK_V0, 0, 0}, table...),
	})
	if err != nil {
		return nil, err
	}
	out := map[string]int{}
	for _, m := range found {
		if len(m.Data) < 4 {
			continue
		}
		attrs, err := netlink.NewAttributeDecoder(m.Data[4:])
		if err != nil {
			return nil, err
		}
		for attrs.Next() {
			if attrs.Type() == unix.NFTA_RULE_CHAIN {
				out[attrs.String()]++
			}
		}
		if err := attrs.Err(); err != nil {
			return nil, err
		}
	}
	return out, nil
}
