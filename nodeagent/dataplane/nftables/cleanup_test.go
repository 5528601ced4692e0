package nftables_test

import (
	"testing"

	google "github.com/google/nftables"

	"portolan.dev/nodeagent/dataplane/dataplanetest/netnstest"
	"portolan.dev/nodeagent/kerneltest"
)

// TestCleanupOfManyServers checks that Cleanup leaves nothing, even if the kernel reports so many
// changes that the plane cannot receive their origin.
func TestCleanupOfManyServers(t *testing.T) {
	n, p := start(t)
	netnstest.Program(t, p, netnstest.Servers(5000, 1)...)
	if err := p.Cleanup(); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	var left []string
	err := n.Node.Do(func() error {
		conn, err := google.New()
		if err != nil {
			return err
		}
		tables, err := conn.ListTables()
		for _, table := range tables {
			left = append(left, table.Name)
		}
		return err
	})
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestManyServersComeAndGo changes servers again and again, and checks that they match the plan and
// that reading them back finds no contradiction.
func TestManyServersComeAndGo(t *testing.T) {
	_, p := start(t)
	servers := netnstest.Servers(300, 3)
	netnstest.Program(t, p, servers...)
	for round := range 3 {
		for i, v := range servers {
			next := *v
			next.Reals = next.Reals[:1+(i+round)%3]
			servers[i] = &next
		}
		netnstest.Program(t, p, servers...)
		if got := netnstest.State(t, p); len(got.Servers) != len(servers) {
			t.Fatalf("round %d: %d servers", round, len(got.Servers))
		}
		for _, v := range servers {
			if have := p.Programmed(v.Key); have == nil || !have.Equal(v) {
				t.Fatalf("round %d: %v, want %v", round, have, v)
			}
		}
	}
}

// TestStateWithoutJournal checks that a plane without a journal goes on as before.
func TestStateWithoutJournal(t *testing.T) {
	kerneltest.Need(t)
	n := netnstest.NewNetwork(t)
	netnstest.LoseJournal(t, n, func() netnstest.Plane { return openPlane(t, n) })
}
