package backends_test

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"portolan.dev/services/backends"
	"portolan.dev/services/kit/kittest"
)

var (
	client = netip.MustParseAddrPort("192.0.2.1:40000")
	local  = netip.MustParseAddrPort("198.51.100.1:80")
)

// flow is a session that records its calls.
type flow struct{ aborted, moved int }

func (f *flow) Abort()          { f.aborted++ }
func (f *flow) BackendRemoved() { f.moved++ }

func addr(n int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(n)}), 80)
}

// server returns a server with a drain time and the backends with the given numbers.
func server(numbers ...int) *backends.Server {
	s := &backends.Server{Drain: time.Hour}
	for _, n := range numbers {
		s.Backends = append(s.Backends, backends.Real{Addr: addr(n), Weight: 1})
	}
	return s
}

// picks returns the backends that a pool picks in a number of picks, sorted, each once.
func picks(p *backends.Pool, n int, tried ...*backends.Backend) []netip.AddrPort {
	var out []netip.AddrPort
	for range n {
		f := &flow{}
		if b := p.Pick(client, local, tried, f); b != nil {
			out = append(out, b.Addr())
			p.Release(b, f, client.Addr())
		}
	}
	slices.SortFunc(out, netip.AddrPort.Compare)
	return slices.Compact(out)
}

// TestUsableBackends checks which backends get new sessions, by their health.
func TestUsableBackends(t *testing.T) {
	const well, failed, down = 0, 1, 2
	for _, c := range []struct {
		name     string
		states   []int
		failOpen bool
		want     []int // indices into states
	}{
		{"all are well", []int{well, well}, false, []int{0, 1}},
		{"one has failed", []int{failed, well}, false, []int{1}},
		{"all have failed", []int{failed, failed}, false, []int{0, 1}},
		{"one is down", []int{down, well}, false, []int{1}},
		{"a failed one is better than one that is down", []int{down, failed}, true, []int{1}},
		{"all are down", []int{down, down}, false, nil},
		{"all are down, and the server fails open", []int{down, down}, true, []int{0, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, s := backends.NewPool(backends.Options{}), &backends.Server{FailOpen: c.failOpen}
			for i := range c.states {
				s.Backends = append(s.Backends, backends.Real{Addr: addr(i), Weight: 1})
			}
			p.Replace(s)
			for i, state := range c.states {
				p.SetDown(addr(i), state == down)
				if state == failed {
					p.Eject(addr(i), time.Now().Add(time.Hour))
				}
			}
			var want []netip.AddrPort
			for _, i := range c.want {
				want = append(want, addr(i))
			}
			if got := picks(p, 10); !slices.Equal(got, want) {
				t.Errorf("picked %v, want %v", got, want)
			}
		})
	}
}

// TestFailOpenIsAboutThePool checks that a session that has tried all usable backends does not try
// backends that are down.
func TestFailOpenIsAboutThePool(t *testing.T) {
	p, s := backends.NewPool(backends.Options{}), server(1, 2)
	s.FailOpen = true
	p.Replace(s)
	p.SetDown(addr(1), true)
	tried := p.Pick(client, local, nil, &flow{})
	if got := picks(p, 3, tried); got != nil || p.HasUntried([]*backends.Backend{tried}) {
		t.Errorf("picked %v after the only usable backend", got)
	}
}

func TestWhatIsKnownOfABackendLasts(t *testing.T) {
	p := backends.NewPool(backends.Options{})
	p.SetDown(addr(1), true) // not a backend yet
	p.Replace(server(1, 2))
	if got := picks(p, 4); len(got) != 2 {
		t.Errorf("picked %v, want both new backends", got)
	}
	p.SetDown(addr(1), true)
	p.Replace(server(1, 2, 3))
	if got, want := picks(p, 6), []netip.AddrPort{addr(2), addr(3)}; !slices.Equal(got, want) {
		t.Errorf("picked %v, want %v: the check's result was lost", got, want)
	}
	p.Eject(addr(2), time.Now().Add(time.Hour))
	p.SetDown(addr(1), false)
	p.Eject(addr(2), time.Time{})
	if got := picks(p, 6); len(got) != 3 {
		t.Errorf("picked %v, want all three", got)
	}
}

// TestAffinityLeavesBackendsThatAreDown checks that a client moves to another backend while its own
// is down.
func TestAffinityLeavesBackendsThatAreDown(t *testing.T) {
	p, s := backends.NewPool(backends.Options{}), server(1, 2, 3)
	s.Affinity = time.Hour
	p.Replace(s)
	first := picks(p, 5)
	if len(first) != 1 {
		t.Fatalf("a client with affinity was sent to %v", first)
	}
	p.SetDown(first[0], true)
	if second := picks(p, 5); len(second) != 1 || second[0] == first[0] {
		t.Errorf("while %v was down, the client was sent to %v", first, second)
	}
}

// TestRemoval checks that sessions and the owner are told of a removed backend.
func TestRemoval(t *testing.T) {
	for _, c := range []struct {
		name           string
		drain          time.Duration
		aborted, moved int
	}{
		{"drains", time.Hour, 0, 1},
		{"ends at once", 0, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var removed []netip.AddrPort
			drained := 0
			p := backends.NewPool(backends.Options{
				Removed: func(b *backends.Backend) { removed = append(removed, b.Addr()) },
				Drained: func() { drained++ },
			})
			p.Replace(server(1))
			f := &flow{}
			b := p.Pick(client, local, nil, f)
			next := server(2)
			next.Drain = c.drain
			p.Replace(next)
			if f.aborted != c.aborted || f.moved != c.moved {
				t.Errorf("the session was aborted %d times and moved %d times, want %d and %d", f.aborted, f.moved, c.aborted, c.moved)
			}
			if !slices.Equal(removed, []netip.AddrPort{addr(1)}) || drained != 0 {
				t.Errorf("removed %v, %d drained", removed, drained)
			}
			if p.Has(addr(1)) || p.Sessions()[addr(1)] != 1 {
				t.Errorf("sessions %v, want one at the removed backend", p.Sessions())
			}
			p.Release(b, f, client.Addr())
			if _, there := p.Sessions()[addr(1)]; there || drained != 1 {
				t.Errorf("sessions %v, %d drained, want the backend forgotten", p.Sessions(), drained)
			}
		})
	}
}

// ended is a session that tells when it was aborted.
type ended chan struct{}

func (e ended) Abort() {
	select {
	case e <- struct{}{}:
	default:
	}
}
func (e ended) BackendRemoved() {}

// TestDrainingEnds checks that sessions are aborted at the end of the drain time, but not while the
// owner uses the backend elsewhere.
func TestDrainingEnds(t *testing.T) {
	asked := make(chan bool)
	p := backends.NewPool(backends.Options{InUse: func(netip.AddrPort) bool { return <-asked }})
	s := server(1)
	s.Drain = time.Millisecond
	p.Replace(s)
	e := make(ended, 1)
	p.Pick(client, local, nil, e)
	p.Replace(nil)
	asked <- true
	asked <- true // the backend was in use, so its sessions continued, and the pool asks again
	if len(e) > 0 {
		t.Error("aborted while the backend was in use elsewhere")
	}
	asked <- false
	kittest.Receive(t, "the end of the session", e)
}

// TestPickingAllocatesNothing checks that Pick allocates nothing, because layer 7 picks a backend for every
// request.
func TestPickingAllocatesNothing(t *testing.T) {
	p, f := backends.NewPool(backends.Options{}), &flow{}
	p.Replace(server(1, 2, 3))
	n := testing.AllocsPerRun(100, func() { p.Release(p.Pick(client, local, nil, f), f, client.Addr()) })
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestSessionsAreCounted does random operations, and checks after each of them that the pool counts
// the sessions that are open, and never picks a backend that may not get any.
func TestSessionsAreCounted(t *testing.T) {
	type open struct {
		b *backends.Backend
		f *flow
	}
	rapid.Check(t, func(t *rapid.T) {
		p := backends.NewPool(backends.Options{})
		var current *backends.Server
		var sessions []open
		t.Repeat(map[string]func(*rapid.T){
			"replace": func(t *rapid.T) {
				current = &backends.Server{Drain: time.Hour}
				for n := range 4 {
					if w := rapid.Uint32Range(0, 3).Draw(t, "weight"); w != 3 {
						current.Backends = append(current.Backends, backends.Real{Addr: addr(n), Weight: w})
					}
				}
				p.Replace(current)
			},
			"delete": func(*rapid.T) { current = nil; p.Replace(nil) },
			"pick": func(t *rapid.T) {
				f := &flow{}
				b := p.Pick(client, local, nil, f)
				if b == nil {
					if p.TakesNew() {
						t.Fatal("no backend was picked though one takes sessions")
					}
					return
				}
				i := slices.IndexFunc(current.Backends, func(r backends.Real) bool { return r.Addr == b.Addr() })
				if i < 0 || current.Backends[i].Weight == 0 {
					t.Fatalf("picked %s of %+v", b.Addr(), current.Backends)
				}
				sessions = append(sessions, open{b, f})
			},
			"release": func(t *rapid.T) {
				if len(sessions) == 0 {
					t.Skip("no session")
				}
				i := rapid.IntRange(0, len(sessions)-1).Draw(t, "session")
				p.Release(sessions[i].b, sessions[i].f, client.Addr())
				sessions = slices.Delete(sessions, i, i+1)
			},
			"": func(t *rapid.T) {
				want := map[netip.AddrPort]uint32{}
				for _, o := range sessions {
					want[o.b.Addr()]++
				}
				for a, n := range p.Sessions() {
					if want[a] != n {
						t.Fatalf("%d sessions counted at %s, want %d", n, a, want[a])
					}
					delete(want, a)
				}
				if len(want) > 0 || p.Empty() && len(sessions) > 0 {
					t.Fatalf("sessions that are not counted: %v", want)
				}
			},
		})
	})
}
