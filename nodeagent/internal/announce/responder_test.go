package announce

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	loadbalancerv1 "portolan.dev/api/loadbalancer/v1"
	"portolan.dev/nodeagent/machine"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/obs"
)

// network is a machine's network in memory.
type network struct {
	mu      sync.Mutex
	open    map[connKey]*link
	refused map[string]bool // interfaces that cannot be opened
}

// link is an open interface of the network.
type link struct {
	requests  chan machine.Request
	closed    chan struct{}
	network   *network
	answered  []netip.Addr
	announced []netip.Addr
	watched   []netip.Addr
}

func (n *network) neighbors(i machine.Interface, v6 bool) (machine.Neighbors, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.refused[i.Name] {
		return nil, errors.New(i.Name + " is refused")
	}
	l := &link{requests: make(chan machine.Request), closed: make(chan struct{}), network: n}
	n.open[connKey{i.Name, v6}] = l
	return l, nil
}

func (n *network) link(name string, v6 bool) *link {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.open[connKey{name, v6}]
}

func (l *link) Receive() (machine.Request, error) {
	select {
	case r := <-l.requests:
		return r, nil
	case <-l.closed:
		return machine.Request{}, net.ErrClosed
	}
}

func (l *link) note(list *[]netip.Addr, addr netip.Addr) error {
	l.network.mu.Lock()
	defer l.network.mu.Unlock()
	*list = append(*list, addr)
	return nil
}

func (l *link) Answer(r machine.Request) error { return l.note(&l.answered, r.Address) }
func (l *link) Announce(addr netip.Addr) error { return l.note(&l.announced, addr) }
func (l *link) Watch(addrs []netip.Addr) error { l.watched = addrs; return nil }
func (l *link) Close() error                   { close(l.closed); return nil }
func (l *link) count(list *[]netip.Addr) []netip.Addr {
	l.network.mu.Lock()
	defer l.network.mu.Unlock()
	return slices.Clone(*list)
}

func (l *link) expectClosed(t *testing.T) {
	t.Helper()
	select {
	case <-l.closed:
	default:
		t.Error("the interface is still open")
	}
}

// ask requests addresses as a neighbour, and returns the answered ones. Each request is received after the
// previous one was handled.
func (l *link) ask(addrs ...netip.Addr) []netip.Addr {
	before := len(l.count(&l.answered))
	for _, addr := range append(addrs, netip.IPv4Unspecified()) {
		l.requests <- machine.Request{Address: addr}
	}
	return l.count(&l.answered)[before:]
}

// bench is a responder with a clock and a network of the test's own.
type bench struct {
	*Responder
	now     time.Duration
	network *network
}

func newBench(t *testing.T, patterns ...string) *bench {
	t.Helper()
	b := &bench{now: time.Hour, network: &network{open: map[connKey]*link{}, refused: map[string]bool{}}}
	holder := NewHolder(func() time.Duration { return b.now }, "i", fakeProxy{}.Serves)
	b.Responder = newResponder(patterns, b.network.neighbors, holder, newMetrics(obs.NewMetrics(), holder, true), kittest.Logger(t))
	return b
}

// grant gives the node rights for 2 s.
func (b *bench) grant(ctx context.Context, addrs ...netip.Addr) {
	b.holder.Begin()
	m := b.holder.Message(State{})
	began, _, _ := b.holder.Follow(&loadbalancerv1.AnnounceResponse{
		Sequence: 2, AnsweredMessage: m.GetSequence(), Validity: durationpb.New(2 * time.Second), Addresses: texts(addrs),
	}, time.Now())
	b.Changed(ctx, began)
}

func device(name string, index int, prefixes ...string) machine.Interface {
	i := machine.Interface{Name: name, Index: index, Hardware: net.HardwareAddr{2, 0, 0, 0, 0, byte(index)}}
	for _, p := range prefixes {
		i.Prefixes = append(i.Prefixes, netip.MustParsePrefix(p))
	}
	return i
}

// TestResponderAnswersForHeldAddresses checks the addresses and interfaces for which the responder answers,
// and that it stops when the right ends.
func TestResponderAnswersForHeldAddresses(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	b := newBench(t, "eth*")
	b.SetInterfaces(ctx, []machine.Interface{
		device("eth0", 2, "192.0.2.200/24", "fe80::2/64", "2001:db8::2/64"), device("eth1", 3, "198.51.100.2/24"), device("wlan0", 4, "203.0.113.2/24"),
	})
	outside := netip.MustParseAddr("203.0.113.77")
	b.grant(ctx, pool[0], pool[2], outside)
	if b.network.link("wlan0", false) != nil || b.network.link("eth1", true) != nil {
		t.Error("an interface is open that does not match, or that has no address of the family")
	}
	for _, c := range []struct {
		name string
		v6   bool
		want []netip.Addr
	}{
		{"eth0", false, []netip.Addr{pool[0], outside}}, {"eth0", true, []netip.Addr{pool[2]}}, {"eth1", false, []netip.Addr{outside}},
	} {
		l := b.network.link(c.name, c.v6)
		if got := l.ask(pool[0], pool[1], pool[2], outside); !slices.Equal(got, c.want) {
			t.Errorf("%s answers for %v, want %v", c.name, got, c.want)
		}
		kittest.Eventually(t, "announcements on "+c.name, func() error {
			if got := l.count(&l.announced); !slices.Equal(got[:min(len(got), len(c.want))], c.want) || len(got) == 0 {
				return fmt.Errorf("%v", got)
			}
			return nil
		})
	}
	if want := []netip.Prefix{netip.MustParsePrefix("192.0.2.200/24"), netip.MustParsePrefix("198.51.100.2/24"), netip.MustParsePrefix("2001:db8::2/64")}; !slices.Equal(b.Subnets(), want) {
		t.Errorf("subnets %v, want %v", b.Subnets(), want)
	}
	l := b.network.link("eth0", false)
	b.now += 2*time.Second - 1
	if got := l.ask(pool[0]); len(got) != 1 {
		t.Error("no answer right before the right ends")
	}
	b.now++
	if got := l.ask(pool[0]); len(got) != 0 {
		t.Error("an answer after the right has ended")
	}
	cancel()
	b.close()
}

// TestResponderFollowsInterfaces checks that interfaces are opened when they come or change, closed
// when they go, and tried again if they could not be opened or were lost.
func TestResponderFollowsInterfaces(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	b := newBench(t, "eth0")
	if _, failures := b.state(); failures != "no interface that is up matches -announce-interfaces=eth0" {
		t.Errorf("without an interface: %q", failures)
	}
	b.grant(ctx, pool[0])
	b.network.refused["eth0"] = true
	up := []machine.Interface{device("eth0", 2, "192.0.2.200/24")}
	b.SetInterfaces(ctx, up)
	if names, failures := b.state(); len(names) != 0 || failures != "eth0 is refused" {
		t.Errorf("open are %v; %q", names, failures)
	}
	b.network.refused["eth0"] = false
	b.SetInterfaces(ctx, up)
	first := b.network.link("eth0", false)
	kittest.Eventually(t, "an announcement on the new interface", func() error {
		if len(first.count(&first.announced)) == 0 {
			return errors.New("none")
		}
		return nil
	})
	b.SetInterfaces(ctx, up)
	if b.network.link("eth0", false) != first {
		t.Error("an unchanged interface was opened again")
	}
	b.SetInterfaces(ctx, []machine.Interface{device("eth0", 7, "192.0.2.200/24")}) // made anew
	second := b.network.link("eth0", false)
	first.expectClosed(t)
	if got := second.ask(pool[0]); len(got) != 1 {
		t.Error("no answer on the interface that was made anew")
	}
	b.SetInterfaces(ctx, nil)
	second.expectClosed(t)
	if names, _ := b.state(); len(names) > 0 || len(b.Subnets()) > 0 {
		t.Errorf("open are %v", names)
	}
	cancel()
	b.close()
}
