package kerneltest

import (
	"os"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// ProbePacketFilter returns an error unless the kernel supports the packet filter, with connection
// tracking and translation of IPv6 addresses.
func ProbePacketFilter() error {
	if _, err := os.Stat("/proc/sys/net/netfilter/nf_conntrack_max"); err != nil {
		return err
	}
	conn, err := nftables.New()
	if err != nil {
		return err
	}
	table := conn.AddTable(&nftables.Table{Name: "probe", Family: nftables.TableFamilyIPv6})
	chain := conn.AddChain(&nftables.Chain{
		Name: "probe", Table: table, Type: nftables.ChainTypeNAT,
		Hooknum: nftables.ChainHookPostrouting, Priority: nftables.ChainPriorityNATSource,
	})
	conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{&expr.Ct{Key: expr.CtKeySTATE, Register: 1}, &expr.Masq{}}})
	return conn.Flush()
}
