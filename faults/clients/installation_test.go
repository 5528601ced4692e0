package clients

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"testing"
	"time"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/faults/check"
	"portolan.dev/faults/history"
	rest "portolan.dev/portolan/e2e/churn/check"
	"portolan.dev/portolan/e2e/churn/model"
	"portolan.dev/portolan/e2e/labtest"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

var (
	seed     = flag.Uint64("seed", 0, "seed of the clients; 0: a random one")
	duration = flag.Duration("run-for", 12*time.Second, "how long clients run")
)

// settleTimeout is the maximum time until changes have reached all daemons on a busy machine.
const settleTimeout = 30 * time.Second

// TestNoPromiseIsBrokenWithoutFaults runs all clients against two registries, an allocator, a name
// server and a node, and checks their records in the middle of the run and at its end.
func TestNoPromiseIsBrokenWithoutFaults(t *testing.T) {
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	t.Logf("the same choices again: go test ./faults/clients -args -seed %d", *seed)
	labtest.Need(t)
	i := labtest.Install(t, labtest.Options{
		Store: kittest.Postgres(t), Nodes: []labtest.NodeOptions{{Name: "n1", Zone: "a", ProxyMode: labtest.Modes()[0]}},
		Flags: map[string][]string{"allocator": {"-verify-grace", "10s", "-verify-interval", "1s"}},
	})
	second := i.AddRegistry()
	virtual := createService(i)
	recorder := history.NewRecorder()
	fleet, err := Start(t.Context(), Config{
		Seed: *seed, Registries: []string{i.RegistryAt().String(), second.String()}, NATS: i.NATS(), Allocator: i.AllocatorAt().String(),
		NameServers: []string{i.DNS().String()}, Names: serviceNames(), Routes: []Route{{"n1", DialIn(i.Nodes[0].Namespace.Do), virtual}},
	}, recorder)
	if err != nil {
		t.Fatal(err)
	}
	defer fleet.Close()
	runClients(t, recorder)
	runCheckers(t, fleet, checkers(false)...)
	runClients(t, recorder)
	fleet.StopWriters()
	if err := fleet.RereadLog(t.Context()); err != nil {
		t.Error(err)
	}
	h := checkAtRest(t, fleet)
	checkLogLines(t, i)
	if err := fleet.Stop(); err != nil {
		t.Error(err)
	}
	for _, w := range h.Availability() {
		t.Logf("%s: %d clients, %d served, %d not; longest %s, in all %s", w.Kind, w.Clients, w.Served, w.Failed, w.Longest, w.Total)
	}
	findings, err := rest.RunAll(t.Context(), check.World(&h.Log), settleTimeout,
		rest.Objects{Registry: i.Conn}, rest.Slices{Registry: i.Conn}, rest.Allocations{Allocator: i.Allocator()},
		rest.Names{Server: i.DNS(), Zones: append([]string{model.Zone}, labtest.ReverseZones()...)},
	)
	report(t, findings)
	if err != nil {
		t.Error(err)
	}
}

// runClients lets the clients run for half of the duration, and longer if a kind of record is still
// missing.
func runClients(t *testing.T, recorder *history.Recorder) {
	t.Helper()
	half, cancel := context.WithTimeout(t.Context(), *duration/2)
	defer cancel()
	<-half.Done()
	kittest.Eventually(t, "all kinds of records exist", func() error { return missingRecords(recorder.History()) })
}

func checkers(atRest bool) []check.Checker {
	return []check.Checker{
		check.Writes{}, check.Order{}, check.Linearizable{}, check.Watches{CaughtUp: atRest}, check.Names{Lag: settleTimeout},
		check.Connections{Lag: settleTimeout}, check.Allocations{Grace: settleTimeout},
		check.Available{Longest: map[string]time.Duration{"write": settleTimeout, "read": settleTimeout, "name": settleTimeout, "connect": settleTimeout}},
	}
}

// runCheckers runs the checkers on the history so far.
func runCheckers(t *testing.T, fleet *Fleet, all ...check.Checker) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), settleTimeout)
	defer cancel()
	h, err := fleet.History(ctx)
	if err != nil {
		t.Fatal(err)
	}
	checkHistory(t, h, all...)
}

func checkHistory(t *testing.T, h *history.History, all ...check.Checker) {
	t.Helper()
	began := time.Now()
	report(t, check.Run(h, all...))
	t.Logf("%d calls, %d changes, %d answers, %d connections checked in %s",
		len(h.Calls), len(h.Log.Changes), len(h.DNSAnswers), len(h.Probes), time.Since(began).Round(time.Millisecond))
}

// checkAtRest waits until every watcher has received the last change, and runs all checkers on the
// history up to then.
func checkAtRest(t *testing.T, fleet *Fleet) *history.History {
	t.Helper()
	var h *history.History
	kittest.Eventually(t, "watchers have caught up", func() (err error) {
		if h, err = fleet.History(t.Context()); err != nil {
			return err
		}
		if findings := (check.Watches{CaughtUp: true}).Check(h); len(findings) > 0 {
			return fmt.Errorf("%s", findings[0])
		}
		return nil
	})
	checkHistory(t, h, checkers(true)...)
	return h
}

// checkLogLines checks the log lines of the daemons.
func checkLogLines(t *testing.T, i *labtest.Installation) {
	t.Helper()
	recorder := history.NewRecorder()
	for name, p := range i.Processes {
		file, err := os.Open(p.LogFile())
		if err != nil {
			t.Fatal(err)
		}
		if err := RecordLog(recorder, name, file); err != nil {
			t.Error(err)
		}
		_ = file.Close()
	}
	h := recorder.History()
	if len(h.LogLines) == 0 {
		t.Error("no daemon printed anything")
	}
	report(t, check.Lines{PerMinute: 10}.Check(h))
}

func report(t *testing.T, findings []check.Finding) {
	t.Helper()
	for _, f := range findings {
		t.Error(f)
	}
}

// createService creates a service with two backends and returns its virtual address.
func createService(i *labtest.Installation) netip.AddrPort {
	i.Helper()
	const port = int32(8080)
	i.ServeBackends([]int32{port})
	meta := &corev1.ObjectMeta{Namespace: object.DefaultNamespace, Name: "steady"}
	svc := &corev1.Service{Metadata: meta, Spec: &corev1.ServiceSpec{Ports: []*corev1.ServicePort{{Name: "http", Port: 80}}}}
	stored, err := i.Registry.Apply(i.Context(), svc, false)
	if err != nil {
		i.Fatal(err)
	}
	name, number := "http", port
	slice := &corev1.EndpointSlice{
		Metadata:    &corev1.ObjectMeta{Namespace: meta.GetNamespace(), Name: "steady", Labels: map[string]string{object.LabelServiceName: "steady"}},
		AddressType: corev1.AddressType_ADDRESS_TYPE_IPV4,
		Ports:       []*corev1.EndpointPort{{Name: &name, Port: &number}},
		Endpoints:   []*corev1.Endpoint{{Addresses: []string{"10.244.100.1"}}, {Addresses: []string{"10.244.100.2"}}},
	}
	if _, err := i.Registry.Apply(i.Context(), slice, false); err != nil {
		i.Fatal(err)
	}
	ip := netip.MustParseAddr(stored.GetObject().GetService().GetSpec().GetClusterIp())
	return netip.AddrPortFrom(ip, 80)
}

func serviceNames() []string {
	all := []string{"steady.default.svc." + model.Zone}
	for _, name := range Services {
		all = append(all, fmt.Sprintf("%s.%s.svc.%s", name, Namespace, model.Zone))
	}
	return all
}

// missingRecords returns an error that names a kind of call or record that the run does not have
// yet. Without such records, a run without findings proves nothing.
func missingRecords(h *history.History) error {
	type use struct {
		kind    string
		verb    history.Verb
		outcome history.Outcome
	}
	uses := map[use]int{}
	for _, c := range h.Calls {
		uses[use{c.Key.Kind, c.Verb, c.Outcome}]++
	}
	for _, s := range contendedObjects() {
		for _, verb := range []history.Verb{history.Create, history.Update, history.Delete, history.Get} {
			for _, outcome := range []history.Outcome{history.OK, history.Refused} {
				if uses[use{s.key.Kind, verb, outcome}] == 0 {
					return fmt.Errorf("no call %s of a %s had the outcome %d", verb, s.key.Kind, outcome)
				}
			}
		}
	}
	rcodes := map[string]int{}
	for _, a := range h.DNSAnswers {
		rcodes[a.Rcode]++
	}
	if rcodes["NOERROR"] == 0 || rcodes["NXDOMAIN"] == 0 {
		return fmt.Errorf("answers of name servers: %v", rcodes)
	}
	if len(h.Connections) == 0 || len(h.Probes) == 0 || len(h.AllocationLists) == 0 {
		return fmt.Errorf("%d connections, %d probes, %d lists of allocations", len(h.Connections), len(h.Probes), len(h.AllocationLists))
	}
	return nil
}
