package health

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/probe"
)

// backends is a set of backends. The test chooses their answers.
type backends struct {
	mu      sync.Mutex
	fails   map[netip.AddrPort]bool
	asked   map[netip.AddrPort]int
	hangs   bool // attempts last until their timeout
	running int
	most    int // running at once
}

func (b *backends) attempt(_ *Settings, target netip.AddrPort) probe.Check {
	return func(ctx context.Context) error {
		b.mu.Lock()
		b.asked[target]++
		b.running++
		b.most = max(b.most, b.running)
		fails, hangs := b.fails[target], b.hangs
		b.mu.Unlock()
		defer func() {
			b.mu.Lock()
			b.running--
			b.mu.Unlock()
		}()
		if hangs {
			<-ctx.Done()
			return ctx.Err()
		}
		if fails {
			return errors.New("broken")
		}
		return nil
	}
}

func (b *backends) set(target netip.AddrPort, fails bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fails[target] = fails
}

func (b *backends) count(target netip.AddrPort) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.asked[target]
}

// newTestChecker returns a checker that runs until the end of the test, or of the call of stop.
func newTestChecker(t *testing.T) (c *Checker, b *backends, stop func()) {
	t.Helper()
	b = &backends{fails: map[netip.AddrPort]bool{}, asked: map[netip.AddrPort]int{}}
	c = NewChecker(slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	c.attempt = b.attempt
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := c.Run(ctx); err != nil {
			t.Errorf("the checker ended with %v", err)
		}
	}()
	return c, b, func() { cancel(); <-done }
}

// events are the calls of a group's function.
type events struct {
	mu  sync.Mutex
	all []string
}

func (e *events) add(backend netip.AddrPort, usable bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, fmt.Sprintf("%s %t", backend, usable))
}

// want compares the calls since its last call.
func (e *events) want(t *testing.T, want ...string) {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	if strings.Join(e.all, ", ") != strings.Join(want, ", ") {
		t.Errorf("changes %q, want %q", e.all, want)
	}
	e.all = nil
}

var (
	one     = netip.MustParseAddrPort("10.0.0.1:80")
	two     = netip.MustParseAddrPort("10.0.0.2:80")
	typical = Settings{Protocol: HTTP, Path: "/", Interval: 10 * time.Second, Timeout: 5 * time.Second, Healthy: 2, Unhealthy: 3}
)

func TestThresholds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, b, stop := newTestChecker(t)
		defer stop()
		var seen events
		g := c.NewGroup(seen.add)
		g.Set(typical, []netip.AddrPort{one, two})
		seen.want(t, "10.0.0.1:80 true", "10.0.0.2:80 true")
		begun := time.Now()
		time.Sleep(time.Minute)
		seen.want(t)

		b.set(two, true)
		time.Sleep(19 * time.Second) // two failures at most
		seen.want(t)
		time.Sleep(13 * time.Second)
		seen.want(t, "10.0.0.2:80 false")
		status := g.Status()
		if len(status) != 2 || !status[0].Usable || status[0].Since != begun || status[1].Usable || status[1].Reason != "broken" || !status[1].Since.After(begun) {
			t.Errorf("status %+v", status)
		}
		b.set(two, false)
		time.Sleep(9 * time.Second)
		seen.want(t)
		time.Sleep(13 * time.Second)
		seen.want(t, "10.0.0.2:80 true")
		if usable, since := g.Usable(two); !usable || !since.After(begun) || g.Status()[1].Reason != "" {
			t.Errorf("usable %t since %s", usable, since)
		}
		asked := time.Since(begun) / typical.Interval
		if n := time.Duration(b.count(one)); n < asked-2 || n > asked+2 {
			t.Errorf("%d checks in %s", n, time.Since(begun))
		}
	})
}

// TestSharedChecks checks that groups with the same settings share checks, and that a group that
// comes later takes over their state.
func TestSharedChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, b, stop := newTestChecker(t)
		defer stop()
		b.set(one, true)
		var first, second events
		g := c.NewGroup(first.add)
		g.Set(typical, []netip.AddrPort{one})
		time.Sleep(time.Minute)
		first.want(t, "10.0.0.1:80 true", "10.0.0.1:80 false")
		later := c.NewGroup(second.add)
		later.Set(typical, []netip.AddrPort{one, one})
		second.want(t, "10.0.0.1:80 false")
		if checked, unhealthy := c.count(); checked != 1 || unhealthy != 1 {
			t.Errorf("%d checks, %d of them fail", checked, unhealthy)
		}
		g.Close()
		b.set(one, false)
		time.Sleep(time.Minute)
		first.want(t)
		second.want(t, "10.0.0.1:80 true")
		later.Close()
		asked := b.count(one)
		time.Sleep(time.Minute)
		if checked, _ := c.count(); checked != 0 || b.count(one) != asked {
			t.Errorf("%d checks after the end of all groups", checked)
		}
	})
}

func TestSettingsChangeInPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, b, stop := newTestChecker(t)
		defer stop()
		admin := netip.AddrPortFrom(one.Addr(), 9000)
		b.set(one, true)
		var seen events
		g := c.NewGroup(seen.add)
		g.Set(typical, []netip.AddrPort{one})
		time.Sleep(time.Minute)
		seen.want(t, "10.0.0.1:80 true", "10.0.0.1:80 false")

		elsewhere := typical
		elsewhere.Port = admin.Port()
		g.Set(elsewhere, []netip.AddrPort{one})
		seen.want(t) // it stays unusable until the new check has succeeded
		time.Sleep(time.Minute)
		seen.want(t, "10.0.0.1:80 true")
		if b.count(admin) == 0 {
			t.Error("the port of the settings is not asked")
		}
		b.set(admin, true)
		time.Sleep(time.Minute)
		seen.want(t, "10.0.0.1:80 false")
		g.Set(Settings{}, []netip.AddrPort{one})
		seen.want(t, "10.0.0.1:80 true")
		if len(g.Status()) != 0 {
			t.Errorf("status %v without checks", g.Status())
		}
		if usable, _ := g.Usable(one); !usable {
			t.Error("a backend without checks is not usable")
		}
		g.Set(Settings{}, nil)
		g.Set(Settings{}, []netip.AddrPort{one, two})
		seen.want(t, "10.0.0.1:80 true", "10.0.0.2:80 true")
	})
}

// TestAnEndChangesNothing checks that an attempt has no result if the end of the checker or the removal of its backend
// interrupts it.
func TestAnEndChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, b, stop := newTestChecker(t)
		b.mu.Lock()
		b.hangs = true
		b.mu.Unlock()
		var seen events
		g := c.NewGroup(seen.add)
		hasty := typical
		hasty.Unhealthy, hasty.Timeout = 1, 9*time.Second
		hasty.Interval = 100 * time.Millisecond
		g.Set(hasty, []netip.AddrPort{one, two})
		seen.want(t, "10.0.0.1:80 true", "10.0.0.2:80 true")
		time.Sleep(time.Second)
		g.Set(hasty, []netip.AddrPort{one})
		synctest.Wait()
		b.mu.Lock()
		if b.running != 1 {
			t.Errorf("%d attempts run", b.running)
		}
		b.mu.Unlock()
		stop()
		seen.want(t)
	})
}

// TestTenThousandBackends checks that many backends are asked evenly, by few goroutines, and that no
// more than maxRunning attempts run if none of the backends answers.
func TestTenThousandBackends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, b, stop := newTestChecker(t)
		defer stop()
		var all []netip.AddrPort
		for i := range 10_000 {
			all = append(all, netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}), 80))
		}
		g := c.NewGroup(func(netip.AddrPort, bool) {})
		g.Set(typical, all)
		before := runtime.NumGoroutine()
		time.Sleep(time.Minute)
		if n := runtime.NumGoroutine(); n > before+100 {
			t.Errorf("%d goroutines, %d before", n, before)
		}
		for _, backend := range all {
			if n := b.count(backend); n < 5 || n > 7 {
				t.Fatalf("%d checks of %s in a minute", n, backend)
			}
		}
		b.mu.Lock()
		b.hangs = true
		b.mu.Unlock()
		time.Sleep(5 * time.Minute)
		b.mu.Lock()
		most := b.most
		b.mu.Unlock()
		if most != maxRunning {
			t.Errorf("%d attempts at once, want %d", most, maxRunning)
		}
		if _, unhealthy := c.count(); unhealthy != len(all) {
			t.Errorf("%d of %d backends are unusable", unhealthy, len(all))
		}
	})
}

func BenchmarkAttempt(b *testing.B) {
	lis := kittest.Listen(b)
	go func() {
		for {
			conn, err := lis.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	}()
	s := Settings{Protocol: TCP}
	check := s.attempt(netip.MustParseAddrPort(lis.Addr().String()))
	for b.Loop() {
		if err := check(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
