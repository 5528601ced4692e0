package ipvs_test

import (
	"cmp"
	"errors"
	"net"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	moby "github.com/moby/ipvs"
	"golang.org/x/sys/unix"

	"portolan.dev/nodeagent/dataplane/dataplanetest/netnstest"
	"portolan.dev/nodeagent/dataplane/ipvs/batch"
	"portolan.dev/nodeagent/kerneltest"
)

// byHandle carries out changes one by one with the library's handle.
func byHandle(h *moby.Handle, changes []batch.Change) (errs []error) {
	for i := range changes {
		s, d := &changes[i].Service, &changes[i].Destination
		errs = append(errs, map[batch.Command]func() error{
			batch.NewService:        func() error { return h.NewService(s) },
			batch.UpdateService:     func() error { return h.UpdateService(s) },
			batch.DelService:        func() error { return h.DelService(s) },
			batch.NewDestination:    func() error { return h.NewDestination(s, d) },
			batch.UpdateDestination: func() error { return h.UpdateDestination(s, d) },
			batch.DelDestination:    func() error { return h.DelDestination(s, d) },
		}[changes[i].Command]())
	}
	return errs
}

// changesOfEveryKind returns changes with all commands and properties of the library's types, some
// of which the kernel refuses.
func changesOfEveryKind() (out []batch.Change) {
	service := func(address string, port, protocol uint16, scheduler string) moby.Service {
		s := moby.Service{Address: net.ParseIP(address), Port: port, Protocol: protocol, SchedName: scheduler, AddressFamily: unix.AF_INET, Netmask: 0xffffffff}
		if s.Address.To4() == nil {
			s.AddressFamily, s.Netmask = unix.AF_INET6, 128
		}
		return s
	}
	do := func(c batch.Command, s moby.Service, d ...moby.Destination) {
		change := batch.Change{Command: c, Service: s}
		if len(d) > 0 {
			change.Destination = d[0]
		}
		out = append(out, change)
	}
	v4, v6 := service("10.96.0.1", 80, unix.IPPROTO_TCP, moby.RoundRobin), service("fd00:96::1", 65535, unix.IPPROTO_UDP, moby.WeightedLeastConnection)
	persistent := service("10.96.0.2", 443, unix.IPPROTO_TCP, moby.SourceHashing)
	persistent.Flags, persistent.Timeout = 0x1|0x8|0x10, 10800
	sctp := service("192.0.2.1", 1, unix.IPPROTO_SCTP, moby.WeightedRoundRobin)
	mark := moby.Service{FWMark: 7, SchedName: moby.LeastConnection, AddressFamily: unix.AF_INET, Netmask: 0xffffffff}
	mark6 := moby.Service{FWMark: 7, SchedName: moby.DestinationHashing, AddressFamily: unix.AF_INET6, Netmask: 128}
	all := []moby.Service{v4, v6, persistent, sctp, mark, mark6}
	for _, s := range all {
		do(batch.NewService, s)
		address := net.ParseIP("10.64.0.1").To4()
		if s.AddressFamily == unix.AF_INET6 {
			address = net.ParseIP("fd00:64::1")
		}
		for i := range 100 {
			address = slices.Clone(address)
			address[len(address)-1] = byte(i + 1)
			d := moby.Destination{Address: address, Port: uint16(8000 + i), Weight: i, ConnectionFlags: moby.ConnectionFlagMasq}
			if s.FWMark != 0 {
				d.Port, d.ConnectionFlags = 0, moby.ConnectionFlagDirectRoute
			}
			if i%3 == 0 {
				d.UpperThreshold, d.LowerThreshold = 1000, 10
			}
			do(batch.NewDestination, s, d)
			if i%5 == 0 {
				d.Weight = 65535
				do(batch.UpdateDestination, s, d)
			}
			if i%7 == 0 {
				do(batch.DelDestination, s, d)
				do(batch.DelDestination, s, d)    // ENOENT
				do(batch.UpdateDestination, s, d) // ENOENT
			} else if i%4 == 0 {
				do(batch.NewDestination, s, d) // EEXIST
			}
		}
		s.SchedName = moby.WeightedRoundRobin
		do(batch.UpdateService, s)
		do(batch.NewService, s) // EEXIST
	}
	v4.SchedName = "nonsense"
	do(batch.UpdateService, v4) // ENOENT
	do(batch.DelService, sctp)
	do(batch.DelService, sctp)                                                           // ESRCH
	do(batch.NewDestination, sctp, moby.Destination{Address: net.IPv4(10, 64, 0, 1)})    // ESRCH
	do(batch.UpdateDestination, sctp, moby.Destination{Address: net.IPv4(10, 64, 0, 1)}) // ESRCH
	return out
}

// programmed are the services of a namespace as the library reads them, each with its destinations.
type programmed struct {
	Service      *moby.Service
	Destinations []*moby.Destination
}

func readAll(t *testing.T, h *moby.Handle) (out []programmed) {
	t.Helper()
	list, err := h.GetServices()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		destinations, err := h.GetDestinations(s)
		if err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(destinations, func(a, b *moby.Destination) int { return slices.Compare(a.Address, b.Address) })
		out = append(out, programmed{s, destinations})
	}
	slices.SortFunc(out, func(a, b programmed) int {
		return cmp.Or(slices.Compare(a.Service.Address, b.Service.Address), cmp.Compare(a.Service.AddressFamily, b.Service.AddressFamily))
	})
	return out
}

// withoutCounters returns destinations as batches read them.
func withoutCounters(list []*moby.Destination) (out []moby.Destination) {
	for _, d := range list {
		d.Stats = moby.DstStats{}
		out = append(out, *d)
	}
	return out
}

func inOrder(list []moby.Destination) []moby.Destination {
	slices.SortFunc(list, func(a, b moby.Destination) int { return slices.Compare(a.Address, b.Address) })
	return list
}

// TestBatchesAreLikeTheHandle programs one namespace with the library's handle and another one with
// batches. The kernel must give the same answers, and hold the same tables, and both must read them alike.
func TestBatchesAreLikeTheHandle(t *testing.T) {
	kerneltest.Need(t)
	alone, together := netnstest.NewNetwork(t), netnstest.NewNetwork(t)
	handle, err := moby.New(alone.Node.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer handle.Close()
	beside, err := moby.New(together.Node.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer beside.Close()
	conn, err := batch.Open(together.Node.Path, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	changes := changesOfEveryKind()
	want, got := byHandle(handle, changes), conn.Do(changes)
	seen := map[error]bool{}
	for i := range changes {
		if !errors.Is(got[i], want[i]) {
			t.Errorf("change %d %+v: %v, by the handle %v", i, changes[i], got[i], want[i])
		}
		seen[want[i]] = true
	}
	for _, err := range []error{nil, unix.EEXIST, unix.ENOENT, unix.ESRCH} {
		if !seen[err] {
			t.Errorf("no change had the error %v", err)
		}
	}
	held := readAll(t, beside)
	if diff := gocmp.Diff(readAll(t, handle), held); diff != "" || len(held) != 5 || len(held[0].Destinations) != 85 {
		t.Errorf("%d services; differences between handle and batch:\n%s", len(held), diff)
	}
	services := make([]moby.Service, len(held))
	for i, p := range held {
		services[i] = *p.Service
	}
	lists, err := conn.Destinations(services)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range held {
		if diff := gocmp.Diff(withoutCounters(p.Destinations), inOrder(lists[i])); diff != "" {
			t.Errorf("destinations of %v; differences between handle and batch:\n%s", services[i], diff)
		}
	}
	counted, err := conn.Counters()
	if err != nil || len(counted) != len(held) {
		t.Fatalf("counters of %d services: %v", len(counted), err)
	}
	for _, c := range counted {
		known := slices.ContainsFunc(held, func(p programmed) bool {
			s := p.Service
			return s.Address.Equal(c.Service.Address) && s.Port == c.Service.Port && s.Protocol == c.Service.Protocol &&
				s.FWMark == c.Service.FWMark && s.AddressFamily == c.Service.AddressFamily
		})
		if !known || c.Counters != (batch.Counters{}) {
			t.Errorf("counters %+v", c)
		}
	}
}
