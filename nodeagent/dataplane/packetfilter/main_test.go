package packetfilter_test

import (
	"os"
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"

	"portolan.dev/nodeagent/kerneltest"
)

func TestMain(m *testing.M) { kerneltest.MainOrNative(m, probe) }

// probe checks that the kernel supports the packet filter.
func probe() error {
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
