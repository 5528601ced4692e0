package nftables

import (
	"net/netip"
	"os/exec"
	"testing"
	"time"

	"portolan.dev/nodeagent/dataplane/kernel"
	"portolan.dev/nodeagent/dataplane/netfilter"
	"portolan.dev/nodeagent/kerneltest"
	"portolan.dev/nodeagent/kerneltest/topology"
	"portolan.dev/nodeagent/plan"
)

// formerTable is a table as earlier versions made it. Its numbers have no tag, and clients with
// affinity remember addresses.
const formerTable = `table ip portolan-balancer {
	map classes { type mark : verdict; }
	map servers {
		type ipv4_addr . inet_proto . inet_service : mark
		elements = { 10.96.0.1 . tcp . 80 : 0x1, 10.96.0.2 . tcp . 80 : 0x2 }
	}
	map slots {
		type ipv4_addr . inet_proto . inet_service . mark : ipv4_addr . inet_service
		elements = { 10.96.0.1 . tcp . 80 . 0x0 : 10.64.0.1 . 8080, 10.96.0.2 . tcp . 80 . 0x0 : 10.64.0.2 . 8080,
			10.96.0.2 . tcp . 80 . 0x1 : 10.64.0.3 . 8080 }
	}
	set idle { type ipv4_addr . inet_proto . inet_service . ipv4_addr . inet_service; }
	set live {
		type ipv4_addr . inet_proto . inet_service . ipv4_addr . inet_service
		elements = { 10.96.0.2 . tcp . 80 . 10.64.0.2 . 8080, 10.96.0.2 . tcp . 80 . 10.64.0.3 . 8080 }
	}
	map affinity {
		type ipv4_addr . ipv4_addr . inet_proto . inet_service : ipv4_addr . inet_service
		size 65535
		flags dynamic,timeout
		elements = { 10.65.0.1 . 10.96.0.2 . tcp . 80 timeout 1h : 10.64.0.3 . 8080 }
	}
	chain rr-0-1-0-any-open-0 { }
	chain rr-0-2-3600-any-open-0 { }
}
add element ip portolan-balancer classes { 0x1 : goto rr-0-1-0-any-open-0, 0x2 : goto rr-0-2-3600-any-open-0 }
`

// TestFormerTablesAreAdopted checks that the servers in the tables of an earlier version, and the
// clients that they remember, stay at an upgrade.
func TestFormerTablesAreAdopted(t *testing.T) {
	kerneltest.Need(t)
	ns := topology.New(t, "node")
	err := ns.Do(func() error { return exec.Command("nft", formerTable).Run() })
	if err != nil {
		t.Fatal(err)
	}
	b, err := open(ns.Path, false)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	var ids []kernel.ID
	for _, at := range []string{"10.96.0.1:80", "10.96.0.2:80"} {
		f := plan.Frontend{Addr: netip.MustParseAddrPort(at), Protocol: plan.TCP}
		ids = append(ids, kernel.ID{Frontend: f, For: f})
	}
	found, err := b.Read(ids)
	if err != nil {
		t.Fatal(err)
	}
	remembered := netip.MustParseAddrPort("10.64.0.3:8080")
	if len(found[ids[0].Frontend].Backends) != 1 || len(found[ids[1].Frontend].Backends) != 2 {
		t.Fatalf("adopted %v", found)
	}
	var clients []uint32
	err = b.conn.Elements(b.tables[0].sets[0].affinity, func(m netfilter.Member) {
		n, _ := numberOf(m.Value)
		clients = append(clients, n)
		if m.Expires <= 59*time.Minute || m.Expires > time.Hour {
			t.Errorf("the client is forgotten in %s", m.Expires)
		}
	})
	if want := b.tables[0].servers[keyOf(ids[1])].memberOf(remembered); err != nil || len(clients) != 1 || clients[0] != want {
		t.Errorf("clients remember %x, %v, want %x", clients, err, want)
	}
	generation := b.tables[0].last
	if _, err := b.Read(ids); err != nil || b.tables[0].last != generation {
		t.Errorf("the tables are not sound after they were adopted: %v", err)
	}
}
