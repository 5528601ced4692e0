package health

import (
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

func addr(n int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(n)}), 80)
}

func addrs(n int) []netip.AddrPort {
	var all []netip.AddrPort
	for i := range n {
		all = append(all, addr(i))
	}
	return all
}

// TestEjectionsGrow follows one backend of four through ejections that grow, and shrink after it has
// served.
func TestEjectionsGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var last time.Time // the end of the last ejection, zero after its return
		e := NewEjector(DefaultEjection, func(_ netip.AddrPort, end time.Time) {
			mu.Lock()
			defer mu.Unlock()
			last = end
		})
		defer e.Close()
		e.Set(addrs(4))
		fail := func(times int) time.Duration {
			mu.Lock()
			last = time.Time{}
			mu.Unlock()
			for range times {
				e.Failure(addr(1))
			}
			mu.Lock()
			defer mu.Unlock()
			if last.IsZero() {
				return 0
			}
			return time.Until(last)
		}
		if fail(4) != 0 {
			t.Error("ejected after 4 failures")
		}
		e.Success(addr(1))
		if fail(4) != 0 {
			t.Error("ejected although a success was between the failures")
		}
		for n := 1; n < 40; n++ {
			length, want := fail(5), min(time.Duration(n)*10*time.Second, 5*time.Minute)
			if length != want {
				t.Fatalf("ejection %d lasts %s, want %s", n, length, want)
			}
			if status := e.Status(); len(status) != 1 || status[0].Backend != addr(1) || !strings.Contains(status[0].Reason, "ejected until 2000-") {
				t.Fatalf("status %+v", status)
			}
			if again := fail(20); again != 0 {
				t.Fatalf("ejected again during an ejection, for %s", again)
			}
			time.Sleep(length + time.Nanosecond)
			synctest.Wait()
			if len(e.Status()) != 0 {
				t.Fatalf("still ejected after %s", length)
			}
			if again := fail(4); again != 0 {
				t.Fatalf("ejected after 4 failures, for %s", again)
			}
			e.Success(addr(1))
		}
		time.Sleep(55 * time.Second)
		if length := fail(5); length != 260*time.Second { // 30 less 5 for 50 s, and one more
			t.Errorf("after 55 s of service, ejected for %s", length)
		}
		e.Failure(addr(77)) // unknown
		e.Success(addr(77))
	})
}

func TestAtLeastHalfStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := map[netip.AddrPort]bool{}
		e := NewEjector(DefaultEjection, func(backend netip.AddrPort, until time.Time) { out[backend] = !until.IsZero() })
		defer e.Close()
		for n, most := range []int{0, 0, 1, 1, 2, 2, 3, 3, 4, 4} {
			e.Close()
			e.Set(addrs(n))
			for i := range n {
				for range 6 {
					e.Failure(addr(i))
				}
			}
			if got := len(e.Status()); got != most {
				t.Errorf("%d of %d backends are ejected, want %d", got, n, most)
			}
		}
		e.Set(addrs(2)) // four of nine were ejected; of two backends only one may be
		if got := len(e.Status()); got != 1 || out[addr(0)] == out[addr(1)] {
			t.Errorf("%d of 2 backends are ejected: %v", got, out)
		}
	})
}

// TestEjections checks the rules of ejections for any order of results, changes of the backends and
// times.
func TestEjections(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
			return step{action: rapid.IntRange(0, 9).Draw(t, "action"), backend: rapid.IntRange(0, 5).Draw(t, "backend"), number: rapid.IntRange(0, 30).Draw(t, "number")}
		}), 30, 150).Draw(rt, "steps")
		var problem string
		synctest.Test(t, func(*testing.T) {
			m := &ejections{failures: map[netip.AddrPort]int{}, until: map[netip.AddrPort]time.Time{}}
			m.ejector = NewEjector(DefaultEjection, m.changed)
			defer m.ejector.Close()
			m.set(6)
			for _, step := range steps {
				m.take(step)
			}
			problem = m.problem
		})
		if problem != "" {
			rt.Fatal(problem)
		}
	})
}

// step is a call of an ejector, or a pause.
type step struct{ action, backend, number int }

// ejections is the model of an ejector in a test.
type ejections struct {
	ejector *Ejector

	mu       sync.Mutex // not held during calls of the ejector, because these call changed
	size     int
	failures map[netip.AddrPort]int
	until    map[netip.AddrPort]time.Time // of ejected backends
	setting  bool                         // a call of Set, which may end ejections early
	problem  string                       // the first problem
}

func (m *ejections) failed(format string, args ...any) {
	if m.problem == "" {
		m.problem = fmt.Sprintf(format, args...)
	}
}

func (m *ejections) changed(backend netip.AddrPort, until time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	end, ejected := m.until[backend]
	if until.IsZero() {
		if !ejected || !m.setting && time.Now().Before(end) {
			m.failed("%s returns, ejected %t until %s", backend, ejected, end)
		}
		delete(m.until, backend)
		m.failures[backend] = 0
		return
	}
	length := time.Until(until)
	if ejected || m.failures[backend] < DefaultEjection.Failures || length < DefaultEjection.Base || length > DefaultEjection.Max || length%DefaultEjection.Base != 0 {
		m.failed("%s is ejected for %s after %d failures, ejected before %t", backend, length, m.failures[backend], ejected)
	}
	m.until[backend] = until
}

func (m *ejections) take(s step) {
	backend := addr(s.backend)
	switch s.action {
	case 0:
		m.set(s.number % 7)
	case 1:
		m.mu.Lock()
		m.failures[backend] = 0
		m.mu.Unlock()
		m.ejector.Success(backend)
	case 2:
		time.Sleep(time.Duration(s.number) * time.Second)
		synctest.Wait()
	default:
		for range s.number % 7 {
			m.fail(s.backend)
		}
	}
	m.check()
}

func (m *ejections) set(size int) {
	m.mu.Lock()
	for i := size; i < m.size; i++ {
		delete(m.until, addr(i))
		delete(m.failures, addr(i))
	}
	m.size, m.setting = size, true
	m.mu.Unlock()
	m.ejector.Set(addrs(size))
	m.mu.Lock()
	m.setting = false
	m.mu.Unlock()
}

func (m *ejections) fail(number int) {
	backend := addr(number)
	if number >= m.size {
		m.ejector.Failure(backend) // of an unknown backend, so nothing happens
		return
	}
	m.mu.Lock()
	m.failures[backend]++
	m.mu.Unlock()
	m.ejector.Failure(backend)
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ejected := m.until[backend]
	if m.failures[backend] >= DefaultEjection.Failures && !ejected && len(m.until) < m.size/2 {
		m.failed("%s is not ejected after %d failures, with %d of %d out", backend, m.failures[backend], len(m.until), m.size)
	}
}

func (m *ejections) check() {
	status := m.ejector.Status()
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.until) > m.size/2 || len(status) != len(m.until) {
		m.failed("%d of %d are ejected, the status is %v", len(m.until), m.size, status)
	}
	for backend, until := range m.until {
		if time.Now().After(until) {
			m.failed("%s is still ejected at %s, until %s", backend, time.Now(), until)
		}
	}
}

func BenchmarkSuccess(b *testing.B) {
	e := NewEjector(DefaultEjection, func(netip.AddrPort, time.Time) {})
	e.Set(addrs(100))
	backend := addr(50)
	b.ReportAllocs()
	for b.Loop() {
		e.Success(backend)
	}
}
