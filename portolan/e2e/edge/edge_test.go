package edge

import (
	"net/netip"
	"slices"
	"syscall"
	"testing"
	"time"

	"portolan.dev/services/kit/kittest"
)

// deaths is the number of edges that are killed one after the other.
const deaths = 10

// TestEdges runs one installation through all that can happen to edges. Times are printed.
func TestEdges(t *testing.T) {
	w := install(t)
	web := w.service(t, "web", 80, "backend-protocol", "http", w.web(t))
	raw := w.service(t, "raw", 81, "proxy-protocol", "v2", w.greeter(t))
	if web.Addr() != raw.Addr() {
		t.Fatalf("the services have %s and %s, not one address", web, raw)
	}
	w.reaches(t, web, w.announcer(t, web.Addr(), nil))
	w.dial(t, raw).goesOn(t, "before anything happens")
	t.Run("killed", func(t *testing.T) { w.killed(t, web) })
	t.Run("told to stop", func(t *testing.T) { w.stopped(t, web, raw) })
	t.Run("agent restarted", func(t *testing.T) { w.withoutItsAgent(t, web, raw) })
	t.Run("without the registry", func(t *testing.T) { w.withoutTheRegistry(t, web) })
}

// killed kills the edge of the announcing node. The other one answers.
func (w *world) killed(t *testing.T, web netip.AddrPort) {
	var times []time.Duration
	for range deaths {
		owner := w.announcer(t, web.Addr(), nil)
		w.reaches(t, web, owner)
		died := time.Now()
		w.edges[owner.Name].Kill()
		w.reaches(t, web, w.other(owner))
		times = append(times, time.Since(died))
		w.startEdge(owner)
		w.serves(t, owner, web.Addr())
	}
	slices.Sort(times)
	t.Logf("edge_killed_to_answer_seconds: median %.3f, longest %.3f of %d", times[len(times)/2].Seconds(), times[len(times)-1].Seconds(), len(times))
}

// stopped tells the edge of the announcing node to stop, as a supervisor does. Requests are answered all
// the time, by the other edge from then on. A connection goes on after its address has moved, and ends
// with the stop timeout.
func (w *world) stopped(t *testing.T, web, raw netip.AddrPort) {
	owner := w.announcer(t, raw.Addr(), nil)
	long := w.dial(t, raw)
	w.reaches(t, web, owner)
	load := w.startLoad(t, web)
	load.more(t, 50)
	begun := time.Now()
	leaving := w.edges[owner.Name]
	if err := syscall.Kill(leaving.PID(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	next := w.announcer(t, raw.Addr(), owner)
	w.dial(t, raw).goesOn(t, "a new connection through "+next.Name)
	long.goesOn(t, "after its address has moved")
	load.more(t, 50)
	<-leaving.Ended()
	t.Logf("edge_stops_with_an_open_connection_seconds: %.3f, its timeout is %s after a lame duck of 1s", time.Since(begun).Seconds(), stopTimeout)
	if got, err := long.line(); err == nil {
		t.Errorf("the connection goes on after the edge has ended: %q", got)
	}
	w.reaches(t, web, w.other(owner))
	load.more(t, 50)
	w.startEdge(owner)
	w.serves(t, owner, web.Addr())
	load.more(t, 50)
	if failed := load.end(); len(failed) > 0 {
		t.Errorf("%d of %d requests failed, the first one: %v", len(failed), load.asked.Load(), failed[0])
	}
	t.Logf("%d requests", load.asked.Load())
}

// withoutItsAgent restarts the agent of an announcing node. Connections and requests go on.
func (w *world) withoutItsAgent(t *testing.T, web, raw netip.AddrPort) {
	owner := w.announcer(t, raw.Addr(), nil)
	long := w.dial(t, raw)
	load := w.startLoad(t, web)
	load.more(t, 50)
	owner.Process.Stop()
	load.more(t, 50)
	long.goesOn(t, "without the agent")
	w.StartAgent(owner)
	w.serves(t, owner, raw.Addr())
	long.goesOn(t, "with the new agent")
	load.more(t, 50)
	if failed := load.end(); len(failed) > 0 {
		t.Errorf("%d of %d requests failed, the first one: %v", len(failed), load.asked.Load(), failed[0])
	}
}

// withoutTheRegistry kills the only edge while there is no registry. The next one serves by its view on
// disk.
func (w *world) withoutTheRegistry(t *testing.T, web netip.AddrPort) {
	w.edges[w.Nodes[1].Name].Stop()
	w.reaches(t, web, w.Nodes[0])
	w.awaitView(t, w.Nodes[0].Name)
	w.Processes["registry"].Stop()
	w.edges[w.Nodes[0].Name].Kill()
	begun := time.Now()
	w.startEdge(w.Nodes[0])
	w.reaches(t, web, w.Nodes[0])
	t.Logf("edge_starts_without_registry_to_answer_seconds: %.3f", time.Since(begun).Seconds())
	w.Restart("registry")
	w.startEdge(w.Nodes[1])
	w.serves(t, w.Nodes[1], web.Addr())
	if _, err := w.ask(web); err != nil {
		t.Error(err)
	}
}

// awaitView waits until the edge of a node has its view on disk.
func (w *world) awaitView(t *testing.T, node string) {
	t.Helper()
	kittest.Eventually(t, "the view on disk", func() error { return exists(w.dirs[node]) })
}
