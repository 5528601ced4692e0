package ipvs

import (
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"portolan.dev/nodeagent/dataplane/ipvs/batch"
	"portolan.dev/nodeagent/dataplane/kernel"
	"portolan.dev/nodeagent/plan"
)

func idOf(n int) plan.Frontend {
	return plan.Frontend{Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 96, byte(n >> 8), byte(n)}), 80), Protocol: plan.TCP}
}

func nthBackend(n int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 64, byte(n >> 8), byte(n)}), 8080)
}

var (
	plain = kernel.Settings{Scheduler: "rr"}
	other = kernel.Settings{Scheduler: "lc"}
)

// op returns an operation on the server of idOf(n).
func op(kind kernel.OpKind, n int) kernel.Op {
	return kernel.Op{Kind: kind, ID: kernel.ID{Frontend: idOf(n), For: idOf(n)}, Settings: plain, Backend: nthBackend(n), Weight: 3}
}

// change returns the change for an operation.
func change(kind kernel.OpKind, n int) batch.Change {
	o := op(kind, n)
	return changeOf(&o)
}

// manyChanges returns the changes for n servers with one backend each.
func manyChanges(n int) (out []batch.Change) {
	for i := range n {
		out = append(out, change(kernel.AddServer, i), change(kernel.AddBackend, i))
	}
	return out
}

// add adds a server of another program.
func (k *imitation) add(n int, s kernel.Settings, backends ...netip.AddrPort) {
	k.settings[idOf(n)], k.backends[idOf(n)] = s, map[netip.AddrPort]uint32{}
	for _, b := range backends {
		k.backends[idOf(n)][b] = 1
	}
}

func (k *imitation) complete(t *testing.T, n int, except ...int) {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range n {
		weight, ok := k.backends[idOf(i)][nthBackend(i)]
		if want := !slices.Contains(except, i); ok != want || want && weight != 3 {
			t.Errorf("server %d: %t, weight %d", i, ok, weight)
		}
	}
}

func none(t *testing.T, errs []error) {
	t.Helper()
	for i, err := range errs {
		if err != nil {
			t.Fatalf("change %d: %v", i, err)
		}
	}
}

// TestErrorsBelongToTheirChanges checks that each error is matched to its change, that failed
// changes are tried once more, and that all others are carried out.
func TestErrorsBelongToTheirChanges(t *testing.T) {
	const n = 2000 // several calls, the last one not full
	k := newImitation()
	tries := map[plan.Frontend]int{}
	bad := []int{0, 31, 32, 700, 1999}
	k.refuse = func(c *batch.Change) error {
		if c.Command != batch.NewService {
			return nil
		}
		id := frontendOf(&c.Service)
		tries[id]++
		switch {
		case id == idOf(500) && tries[id] == 1:
			return unix.ENOMEM // succeeds at the second try
		case slices.ContainsFunc(bad, func(i int) bool { return id == idOf(i) }):
			return unix.EPERM
		}
		return nil
	}
	errs := k.session(t).execute(manyChanges(n))
	for i, err := range errs {
		refused := slices.Contains(bad, i/2)
		switch {
		case refused && i%2 == 0 && !errors.Is(err, unix.EPERM), refused && i%2 == 1 && !errors.Is(err, unix.ESRCH), !refused && err != nil:
			t.Errorf("change %d: %v", i, err)
		}
	}
	k.complete(t, n, bad...)
	if k.sent > 2*n+2*len(bad)+2 { // including the second try that succeeds
		t.Errorf("%d changes", k.sent)
	}
}

// TestLostAnswers checks that the results of changes are found out if their answers are lost in a
// full buffer, and that servers of other programs do not change.
func TestLostAnswers(t *testing.T) {
	k := newImitation()
	s := k.session(t)
	k.add(7, plain, nthBackend(1000))
	k.add(8, other)
	k.lose = 3
	errs := s.execute(manyChanges(300))
	for i, err := range errs {
		if foreign := i == 2*7 || i == 2*8; foreign != errors.Is(err, unix.EEXIST) || !foreign && err != nil {
			t.Errorf("change %d: %v", i, err)
		}
	}
	k.complete(t, 300)
	k.lose = 1
	none(t, s.execute([]batch.Change{change(kernel.DeleteBackend, 1)}))
	k.lose = 1
	none(t, s.execute([]batch.Change{change(kernel.DeleteServer, 1)}))
	k.complete(t, 300, 1)
}

// TestStalledConnectionIsReplaced checks that a connection that does not answer is replaced, and
// that its changes are tried again.
func TestStalledConnectionIsReplaced(t *testing.T) {
	for _, n := range []int{1, 1000} {
		k := newImitation()
		s := k.session(t)
		k.mute = 1
		none(t, s.execute(manyChanges(n)[:2*n-1]))
		none(t, s.execute(manyChanges(n)[2*n-1:]))
		k.complete(t, n)
		if k.opened != 2 {
			t.Errorf("opened %d times", k.opened)
		}
	}
}

// TestReadsEnd checks that a read that the kernel does not answer is an error, although the library
// waits without limit, and that the next read succeeds.
func TestReadsEnd(t *testing.T) {
	k := newImitation()
	s := k.session(t)
	none(t, s.execute(manyChanges(1)))
	k.mute = 1
	if _, _, err := s.server(idOf(0)); !errors.Is(err, batch.ErrTimeout) {
		t.Errorf("error %v", err)
	}
	<-s.abandoned.ended
	if settings, list, err := s.server(idOf(0)); err != nil || settings != plain || len(list) != 1 || addrOf(&list[0]) != nthBackend(0) {
		t.Errorf("settings %v, backends %v, %v", settings, list, err)
	}
}

// TestHangingKernel checks that the caller gets an error while the kernel does not return from a
// call, that no further call is made that would hang, and that changes succeed again afterwards.
func TestHangingKernel(t *testing.T) {
	k := newImitation()
	s := k.session(t)
	s.toEnd = time.Millisecond // the call that hangs does not end
	hang := make(chan struct{})
	k.mu.Lock()
	k.hang = hang
	k.mu.Unlock()
	for range 2 {
		for i, err := range s.execute(manyChanges(600)) {
			if !errors.Is(err, batch.ErrTimeout) {
				t.Fatalf("change %d: %v", i, err)
			}
		}
	}
	if _, err := s.backends(idOf(0)); !errors.Is(err, batch.ErrTimeout) {
		t.Errorf("reading: %v", err)
	}
	k.mu.Lock()
	opened := k.opened
	k.mu.Unlock()
	if opened != 1 {
		t.Errorf("opened %d times", opened)
	}
	close(hang)
	<-s.abandoned.ended
	for i, err := range s.execute(manyChanges(600)) {
		if err != nil && !errors.Is(err, unix.EEXIST) { // the call that hung was carried out in the end
			t.Fatalf("change %d: %v", i, err)
		}
	}
	k.complete(t, 600)
}

// balancer returns a balancer on the imitation.
func (k *imitation) balancer(t *testing.T) *balancer {
	return &balancer{writer: k.session(t), missing: map[string]bool{}, unknownServers: map[plan.Frontend]kernel.Settings{}}
}

// TestForeignServersGetNoBackends checks that a server of another program never gets our backends,
// not even for a moment.
func TestForeignServersGetNoBackends(t *testing.T) {
	k := newImitation()
	b := k.balancer(t)
	k.add(1, plain)
	touched := false
	k.refuse = func(c *batch.Change) error {
		touched = touched || frontendOf(&c.Service) == idOf(1) && c.Command != batch.NewService
		return nil
	}
	var ops []kernel.Op
	for n := range 3 {
		ops = append(ops, op(kernel.AddServer, n), op(kernel.AddBackend, n))
	}
	for i, err := range b.Apply(ops) {
		if foreign := i/2 == 1; foreign != errors.Is(err, kernel.ErrForeign) || !foreign && err != nil {
			t.Errorf("operation %d: %v", i, err)
		}
	}
	k.complete(t, 3, 1)
	if touched {
		t.Error("the foreign server was touched")
	}
}

// TestServersOfUnknownFate checks that a server is found again if the change that added it was never
// answered. If it is ours it is used or removed, and if it belongs to another program it does not
// change.
func TestServersOfUnknownFate(t *testing.T) {
	k := newImitation()
	b := k.balancer(t)
	const made, foreign, never, unmade = 1, 2, 3, 4
	k.add(foreign, other)
	unknown := func(n int) {
		t.Helper()
		k.silent = 2 // for the second try too
		if errs := b.Apply([]kernel.Op{op(kernel.AddServer, n)}); !errors.Is(errs[0], kernel.ErrUnknown) {
			t.Fatalf("server %d: %v", n, errs[0])
		}
	}
	unknown(made)
	unknown(foreign)
	k.silent = 1 // for the query too: the result stays unknown, and the server is not removed
	if errs := b.Apply([]kernel.Op{op(kernel.DeleteServer, foreign)}); !errors.Is(errs[0], kernel.ErrUnknown) {
		t.Errorf("foreign, unread: %v", errs[0])
	}
	none(t, b.Apply([]kernel.Op{op(kernel.AddServer, made), op(kernel.AddBackend, made)}))
	if k.backends[idOf(made)][nthBackend(made)] != 3 {
		t.Errorf("backends %v", k.backends[idOf(made)])
	}
	if errs := b.Apply([]kernel.Op{op(kernel.AddServer, foreign), op(kernel.AddBackend, foreign)}); !errors.Is(errs[0], kernel.ErrForeign) {
		t.Errorf("foreign: %v", errs[0])
	}
	unknown(foreign)
	none(t, b.Apply([]kernel.Op{op(kernel.DeleteServer, foreign)}))
	if k.settings[idOf(foreign)] != other || len(k.backends[idOf(foreign)]) > 0 {
		t.Errorf("the foreign server is %v with %v", k.settings[idOf(foreign)], k.backends[idOf(foreign)])
	}
	unknown(unmade)
	none(t, b.Apply([]kernel.Op{op(kernel.DeleteServer, unmade)}))
	unknown(never)
	k.mu.Lock()
	delete(k.settings, idOf(never)) // as if it had never been there
	k.mu.Unlock()
	none(t, b.Apply([]kernel.Op{op(kernel.AddServer, never)}))
	if _, ok := k.settings[idOf(never)]; !ok {
		t.Error("it was not added")
	}
	if _, ok := k.settings[idOf(unmade)]; ok || len(b.unknownServers) > 0 {
		t.Errorf("not removed, or still unknown: %v", b.unknownServers)
	}
}
