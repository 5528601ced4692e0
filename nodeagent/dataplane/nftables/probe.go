package nftables

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"portolan.dev/nodeagent/dataplane/kernel"
	"portolan.dev/nodeagent/dataplane/netfilter"
	"portolan.dev/nodeagent/plan"
)

// probeName is the name of the temporary tables of Probe.
const probeName = "portolan-probe"

// Probe returns an error unless the kernel supports everything that the plane needs of nftables in
// a namespace. It makes tables with a server of each kind, reads them back, and removes them.
func Probe(namespace string) error { return probe(namespace, false) }

// probe does the same as Probe. If counts is set, it also tests counters of servers.
func probe(namespace string, counts bool) error {
	conn, err := netfilter.Dial(namespace)
	if err != nil {
		return err
	}
	b := &balancer{conn: conn, tables: newTables(probeName, counts)}
	defer b.Close()
	var ids []kernel.ID
	for i, at := range []string{"198.51.100.0:20000", "[2001:db8::]:20000"} {
		frontend := netip.MustParseAddrPort(at)
		for _, s := range []kernel.Settings{
			{Scheduler: plan.RoundRobin.String(), Affinity: time.Second},
			{Scheduler: plan.SourceHash.String(), Flags: flagPort},
			{Scheduler: plan.DestinationHash.String()},
		} {
			id := plan.Frontend{Addr: netip.AddrPortFrom(frontend.Addr(), frontend.Port()+uint16(len(ids))), Protocol: plan.TCP}
			ids = append(ids, kernel.ID{Frontend: id, For: id})
			v := &server{class: class{Settings: s}}
			v.set(frontend, 1)
			v.set(netip.AddrPortFrom(frontend.Addr().Next(), 80), 1)
			v.assignSlots()
			b.tables[i].servers[key{Frontend: id}] = v
		}
	}
	if err := b.install(); err != nil {
		return fmt.Errorf("the kernel does not take what is needed of nftables: %w", err)
	}
	found, err := b.Read(ids)
	if counted, countErr := b.Traffic(ids); err == nil && counts && len(counted) != len(ids) {
		err = errors.Join(countErr, errors.New("the kernel does not count what elements are for"))
	}
	if rest := b.Remove(); err == nil {
		err = rest
	}
	if err == nil && len(found) != len(ids) {
		err = fmt.Errorf("the kernel takes nftables, but does not keep them")
	}
	return err
}

// HasState reports whether a namespace has tables of the plane, or tables of a probe that was interrupted.
func HasState(namespace string) (bool, error) {
	return netfilter.HasTable(namespace, tableName, probeName)
}
