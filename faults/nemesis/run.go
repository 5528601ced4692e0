package nemesis

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"portolan.dev/faults/lab"
	"portolan.dev/portolan/e2e/churn/check"
	"portolan.dev/portolan/e2e/churn/model"
	"portolan.dev/portolan/e2e/churn/workload"
	"portolan.dev/portolan/e2e/labtest"
	corev1 "portolan.dev/proto/portolan/core/v1"
	nodeagentv1 "portolan.dev/proto/portolan/nodeagent/v1"
	registryv1 "portolan.dev/proto/portolan/registry/v1"
)

const (
	// actors is how many clients write.
	actors = 8
	// patience is how long a daemon may take to get over what happened to it.
	patience = 60 * time.Second
)

// podNodes have no agents, which would report the readiness of pods in place of the actors.
var podNodes = []string{"hand-made-1", "hand-made-2"}

// run is a run of a schedule.
type run struct {
	*lab.Lab
	seed       uint64
	actors     []*workload.Actor
	writer     *writer
	clients    []client
	registries [2]*grpc.ClientConn // which nothing cuts, as those that follow
	allocator  *grpc.ClientConn
	agents     map[*lab.Node]nodeagentv1.NodeAgentServiceClient
	times      convergence
	components []string // in the order of cause and effect
	restarts   map[string]int
}

// Run starts a lab, carries out a schedule, and checks after each of its rounds.
func Run(t *testing.T, seed uint64, s Schedule) {
	t.Helper()
	t.Logf("seed %d, %d faults in %d rounds:\n%s", seed, len(s), s.Rounds(), s)
	r := start(t, seed)
	for round := range s.Rounds() {
		r.round(round, s.round(round))
		if t.Failed() {
			break
		}
	}
	r.report()
}

func start(t *testing.T, seed uint64) *run {
	t.Helper()
	began := time.Now()
	l := lab.Install(t)
	t.Logf("%d processes are ready after %s", len(l.Machines()), time.Since(began).Round(time.Millisecond))
	r := &run{
		Lab: l, seed: seed, restarts: map[string]int{}, times: convergence{times: map[string][]time.Duration{}},
		writer:     newWriter(l.DialFrom(l.Clients, "registry-0", "registry-1"), newMeter("write")),
		registries: [2]*grpc.ClientConn{l.Dial("registry-0"), l.Dial("registry-1")},
		allocator:  l.Dial("allocator-0"), agents: map[*lab.Node]nodeagentv1.NodeAgentServiceClient{},
	}
	for _, n := range l.Nodes {
		r.agents[n] = l.Agent(n)
	}
	for n := range actors {
		r.actors = append(r.actors, workload.NewActor(seed, n, podNodes))
	}
	r.prepare()
	r.clients = clients(l)
	return r
}

// prepare makes the objects that the workload stands on.
func (r *run) prepare() {
	r.Helper()
	namespaces := []string{steadyNamespace}
	for _, a := range r.actors {
		namespaces = append(namespaces, a.Namespace())
	}
	for _, name := range namespaces {
		_, err := registryv1.NewNamespaceServiceClient(r.registries[0]).CreateNamespace(r.Context(), &registryv1.CreateNamespaceRequest{
			Namespace: &corev1.Namespace{Metadata: &corev1.ObjectMeta{Name: name}}})
		if err != nil {
			r.Fatal(err)
		}
	}
	for _, name := range podNodes {
		_, err := registryv1.NewNodeServiceClient(r.registries[0]).CreateNode(r.Context(), &registryv1.CreateNodeRequest{
			Node: &corev1.Node{Metadata: &corev1.ObjectMeta{Name: name}}})
		if err != nil {
			r.Fatal(err)
		}
	}
	for _, s := range steady() {
		r.writer.do(r.Context(), s)
	}
	r.converge(false)
}

// round has clients work while the faults of the round come and go, and checks afterwards.
func (r *run) round(number int, faults Schedule) {
	r.Helper()
	ctx, stop := context.WithCancel(r.Context())
	var wg sync.WaitGroup
	for _, c := range r.clients {
		wg.Go(func() { c.run(ctx) })
	}
	r.writer.meter.begin()
	for _, a := range r.actors {
		wg.Go(func() {
			for ctx.Err() == nil {
				for _, s := range a.Next() {
					r.writer.do(r.Context(), s) // to its end: what is left in the middle is in doubt for nothing
				}
			}
		})
	}
	err := r.carryOut(faults)
	healed := time.Now()
	r.writer.meter.end()
	stop()
	wg.Wait()
	if err != nil {
		r.Errorf("round %d: the nemesis failed: %v", number, err)
		return
	}
	if err := r.awaitReady(); err != nil {
		r.Errorf("round %d: %s after the last fault: %v", number, time.Since(healed).Round(time.Second), err)
	}
	r.Logf("round %d: healed, writes ended %s later", number, time.Since(healed).Round(time.Millisecond))
	r.converge(true)
	r.confirm(number)
}

// event is the beginning or the end of a fault.
type event struct {
	at    time.Duration
	fault int
	heals bool
}

// events returns what happens when.
func (s Schedule) events() []event {
	var all []event
	for n, f := range s {
		all = append(all, event{f.At, n, false}, event{f.At + f.For, n, true})
	}
	slices.SortStableFunc(all, func(a, b event) int { return int(a.at - b.at) })
	// What is healed last is healed after all others.
	return slices.Concat(
		slices.DeleteFunc(slices.Clone(all), func(e event) bool { return e.heals && kinds[s[e.fault].Kind].last }),
		slices.DeleteFunc(slices.Clone(all), func(e event) bool { return !e.heals || !kinds[s[e.fault].Kind].last }))
}

// carryOut has faults begin and end in time. Meanwhile it starts again what ended by itself, as a supervisor does.
func (r *run) carryOut(s Schedule) error {
	began := time.Now()
	missed := map[int]bool{}
	for _, e := range s.events() {
		r.superviseUntil(began.Add(e.at))
		f := s[e.fault]
		machines, err := f.find(r.Lab)
		if err != nil {
			return err
		}
		switch {
		case !e.heals:
			err = kinds[f.Kind].begin(r.Lab, machines)
			if f.Kind == "step-down" || errors.Is(err, lab.ErrNoStandby) { // it needs others that may be away
				missed[e.fault] = err != nil
			}
			if missed[e.fault] {
				r.Logf("%s did not happen: %v", f, err)
				err = nil
			}
		case !missed[e.fault]:
			err = kinds[f.Kind].heal(r.Lab, machines)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", f, err)
		}
	}
	r.supervise()
	return nil
}

// superviseUntil waits.
func (r *run) superviseUntil(end time.Time) {
	for time.Now().Before(end) {
		<-time.After(min(100*time.Millisecond, time.Until(end)))
		r.supervise()
	}
}

func (r *run) supervise() {
	for _, m := range r.Machines() {
		if m.Supervise() {
			r.restarts[m.Name]++
		}
	}
}

// awaitReady waits until all daemons are ready. One whose data were in the way of a start may need another one.
func (r *run) awaitReady() error {
	done := make(chan error, 1)
	go func() { done <- r.AwaitReady() }()
	for {
		select {
		case err := <-done:
			return err
		case <-time.After(100 * time.Millisecond):
			r.supervise()
		}
	}
}

// checkers are in the order of cause and effect. Those of what daemons do with objects come after the first four.
func (r *run) checkers(audit bool) []check.Checker {
	all := []check.Checker{
		named{"registry-0", check.Objects{Registry: r.registries[0]}}, named{"registry-1", check.Objects{Registry: r.registries[1]}},
		check.Slices{Registry: r.registries[0]}, check.Legacy{Registry: r.registries[0]},
	}
	for _, n := range r.Nodes {
		node := check.Node{Name: n.Name, Addresses: n.Addresses[:], Agent: r.agents[n], Inside: n.Namespace.Do}
		all = append(all, check.Forwarding{Node: node, Registry: r.registries[0], Plan: !audit})
		if audit {
			all = append(all, check.Traffic{Node: node})
		}
	}
	zones := append([]string{model.Zone}, labtest.ReverseZones()...)
	for _, name := range []string{"dnssvc-0", "dnssvc-1"} {
		all = append(all, named{"names of " + name, check.Names{Server: r.Resolver(name), Zones: zones}})
	}
	return append(all, check.Allocations{Allocator: r.allocator})
}

// named is a checker under another name.
type named struct {
	name string
	check.Checker
}

// Name implements check.Checker.
func (n named) Name() string { return n.name }

// converge waits for each component until it has everything. It measures only; confirm judges.
func (r *run) converge(measure bool) {
	r.Helper()
	began := time.Now()
	checkers := r.checkers(false)
	r.components = r.components[:0]
	var wg sync.WaitGroup
	for _, c := range checkers {
		r.components = append(r.components, c.Name())
		wg.Go(func() {
			for time.Since(began) < patience {
				err := r.writer.settle(r.Context(), r.registries[0])
				findings, failed := c.Check(r.Context(), r.writer.inner.World)
				if err == nil && failed == nil && len(findings) == 0 {
					if measure {
						r.times.note(c.Name(), time.Since(began))
					}
					return
				}
				<-time.After(50 * time.Millisecond)
			}
		})
	}
	wg.Wait()
}

// confirm checks everything once nothing in doubt can happen any more.
func (r *run) confirm(round int) {
	r.Helper()
	<-time.After(r.writer.settled())
	if err := r.writer.settle(r.Context(), r.registries[0]); err != nil {
		r.Errorf("round %d: an acknowledged write is lost: %v", round, err)
	}
	began := time.Now()
	findings, err := check.AtRest(r.Context(), r.writer.inner.World, patience/2, r.checkers(true)...)
	if err != nil {
		r.Errorf("round %d: %v", round, err)
	}
	concerned := map[string]bool{}
	for _, f := range findings {
		r.Errorf("round %d, after %s of rest: %s", round, time.Since(began).Round(time.Millisecond), f)
		concerned[f.Object.Namespace] = true
	}
	for namespace := range concerned {
		r.Logf("last writes of namespace %s:\n%s", namespace, strings.Join(r.writer.inner.History.Of(namespace), "\n"))
	}
	r.writer.forget()
}

// report prints the figures of the run.
func (r *run) report() {
	r.Helper()
	lines := []string{"what clients saw:", r.writer.meter.String()}
	for _, c := range r.clients {
		lines = append(lines, c.String())
	}
	lines = append(lines, "until everything was right, after the last fault of a round was healed:")
	lines = append(lines, r.times.lines(r.components)...)
	for _, reason := range slices.Sorted(maps.Keys(r.writer.refused)) {
		lines = append(lines, fmt.Sprintf("writes given up: %d × %s, such as %v", r.writer.refused[reason].times, reason, r.writer.refused[reason].last))
	}
	for _, name := range slices.Sorted(maps.Keys(r.restarts)) {
		lines = append(lines, fmt.Sprintf("%s ended by itself %d times", name, r.restarts[name]))
	}
	r.Log(strings.Join(lines, "\n"))
}
