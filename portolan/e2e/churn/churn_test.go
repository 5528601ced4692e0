package churn

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/portolan/e2e/churn/check"
	"portolan.dev/portolan/e2e/churn/model"
	"portolan.dev/portolan/e2e/churn/workload"
	"portolan.dev/portolan/e2e/labtest"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

var (
	seed     = flag.Uint64("seed", 0, "seed of the run; 0: a random one")
	duration = flag.Duration("churn", kittest.Exploring(20*time.Second), "how long clients write, beside the rest in between")
)

const (
	actors = 12
	// moves is the number of an actor's moves in a round. Each is one to three writes.
	moves = 30
	// patience is how long a daemon may be behind, by its own account.
	patience = 30 * time.Second
	// histories is the number of namespaces for which a failure prints the history.
	histories = 3
)

// TestChurn has clients change services, pods and slices at random, in rounds. It checks after each
// round that every daemon agrees with the objects.
func TestChurn(t *testing.T) {
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	t.Logf("to repeat: go test ./portolan/e2e/churn -seed %d", *seed)
	r := start(t)
	began, rounds := time.Now(), 0
	for ; time.Since(began) < *duration && !t.Failed(); rounds++ {
		r.round(rounds)
		r.rest(rounds)
	}
	t.Logf("%d rounds of %d moves, %d objects at the end", rounds, actors*moves, len(r.writer.World.Objects()))
}

// run is a run of the test.
type run struct {
	*labtest.Installation
	actors   []*workload.Actor
	writer   *workload.Writer
	checkers []check.Checker
	random   *rand.Rand
}

func start(t *testing.T) *run {
	t.Helper()
	labtest.Need(t)
	o := labtest.Options{Store: kittest.Postgres(t)}
	for n, mode := range labtest.Modes() {
		o.Nodes = append(o.Nodes, labtest.NodeOptions{Name: fmt.Sprintf("n%d", n+1), Zone: "a", ProxyMode: mode})
	}
	i := labtest.Install(t, o)
	r := &run{
		Installation: i, random: rand.New(rand.NewPCG(*seed, actors)),
		writer: &workload.Writer{Registry: i.Conn, World: model.New(), History: workload.NewHistory()},
	}
	i.ServeBackends(workload.Ports)
	for _, name := range podNodes {
		r.prepare(&corev1.Node{Metadata: &corev1.ObjectMeta{Name: name}})
	}
	for n := range actors {
		a := workload.NewActor(*seed, n, podNodes)
		r.actors = append(r.actors, a)
		r.prepare(&corev1.Namespace{Metadata: &corev1.ObjectMeta{Name: a.Namespace()}})
	}
	r.checkers = checkers(i)
	return r
}

// podNodes are nodes without agents. Agents would report the readiness of pods in place of the
// actors.
var podNodes = []string{"hand-made-1", "hand-made-2"}

// prepare makes an object that does not belong to the workload.
func (r *run) prepare(o object.Object) {
	r.Helper()
	if _, err := r.Registry.Apply(r.Context(), o, false); err != nil {
		r.Fatal(err)
	}
}

// checkers returns the checkers in the order of cause and effect.
func checkers(i *labtest.Installation) []check.Checker {
	all := []check.Checker{
		check.Objects{Registry: i.Conn}, check.Slices{Registry: i.Conn}, check.Legacy{Registry: i.Conn},
	}
	for _, n := range i.Nodes {
		node := check.Node{Name: n.Name, Addresses: n.Addresses[:], Agent: n.Agent, Inside: n.Namespace.Do}
		all = append(all, check.Forwarding{Node: node, Registry: i.Conn}, check.Traffic{Node: node})
	}
	return append(all,
		check.Names{Server: i.DNS(), Zones: append([]string{model.Zone}, labtest.ReverseZones()...)},
		check.Allocations{Allocator: i.Allocator()},
		check.Events{Registry: i.Conn, False: map[string]bool{"AddressInUse": true}},
	)
}

// round has all actors write at once. In every other round agents are paused meanwhile, so that all
// changes reach them in one batch. In the others they are paused for short times.
func (r *run) round(number int) {
	r.Helper()
	group, ctx := errgroup.WithContext(r.Context())
	asleep := number%2 == 1
	if asleep {
		for _, n := range r.Nodes {
			n.Process.Pause()
		}
	}
	for _, a := range r.actors {
		group.Go(func() error { return r.act(ctx, a) })
	}
	if !asleep {
		r.holdUp()
	}
	err := group.Wait()
	for _, n := range r.Nodes {
		n.Process.Continue()
	}
	if err != nil {
		r.Fatalf("a write that must succeed: %v", err)
	}
}

func (r *run) act(ctx context.Context, a *workload.Actor) error {
	for range moves {
		for _, step := range a.Next() {
			if err := r.writer.Do(ctx, step); err != nil {
				return fmt.Errorf("%w\n%s", err, strings.Join(r.writer.History.Of(a.Namespace()), "\n"))
			}
		}
	}
	return nil
}

// holdUp pauses agents for short times.
func (r *run) holdUp() {
	for range 3 {
		for _, n := range r.Nodes {
			n.Process.Pause()
			<-time.After(r.moment())
			n.Process.Continue()
		}
	}
}

func (r *run) moment() time.Duration { return time.Duration(r.random.IntN(100)) * time.Millisecond }

// rest waits until all daemons agree with the objects.
func (r *run) rest(number int) {
	r.Helper()
	began := time.Now()
	findings, err := check.RunAll(r.Context(), r.writer.World, patience, r.checkers...)
	if err != nil {
		r.Errorf("round %d: %v", number, err)
	}
	var concerned []string
	for _, f := range findings {
		r.Errorf("round %d, after %s: %s", number, time.Since(began).Round(time.Millisecond), f)
		if ns := f.Object.Namespace; ns != "" && !slices.Contains(concerned, ns) && len(concerned) < histories {
			concerned = append(concerned, ns)
		}
	}
	for _, namespace := range concerned {
		r.Logf("last writes of namespace %s:\n%s", namespace, strings.Join(r.writer.History.Of(namespace), "\n"))
	}
}
