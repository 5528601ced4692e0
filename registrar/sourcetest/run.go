package sourcetest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"portolan.dev/registrar/internal/labels"
	"portolan.dev/registrar/source"
)

// Run checks a source. Each test has a world of its own.
func Run(t *testing.T, newWorld func(t *testing.T) World) {
	for _, test := range []struct {
		name string
		run  func(*suite)
	}{
		{"the first report is complete", (*suite).firstReport},
		{"an empty place is reported", (*suite).emptyPlace},
		{"labels reach the workload", (*suite).labelsArrive},
		{"workloads come and go", (*suite).comeAndGo},
		{"a stop is terminating before it is gone", (*suite).gracefulStop},
		{"bad labels harm nothing else", (*suite).badLabels},
		{"a lost connection says nothing about workloads", (*suite).lostConnection},
		{"changes without a connection are found", (*suite).changesUnseen},
		{"IDs stay over a restart of the registrar", (*suite).stableIDs},
		{"a place that is not there yet is no error of Run", (*suite).laterPlace},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(&suite{T: t, World: newWorld(t)}) })
	}
}

// suite is one test in its world.
type suite struct {
	*testing.T
	World
}

// backendOf returns the labels of a workload that is a backend of a service.
func backendOf(service string) map[string]string {
	return map[string]string{labels.Service: service, labels.Port + "http": "8000"}
}

// running starts n workloads. It returns their IDs with the value false, which means not terminating.
func (s *suite) running(n int) map[string]bool {
	ids := map[string]bool{}
	for range n {
		id := s.Start(backendOf("web"))
		if _, again := ids[id]; id == "" || again {
			s.Fatalf("the world has started a workload with the ID %q", id)
		}
		ids[id] = false
	}
	return ids
}

// one returns the smallest ID.
func one(ids map[string]bool) string { return slices.Sorted(maps.Keys(ids))[0] }

func (s *suite) firstReport() {
	want := s.running(3)
	r := start(s.T, s.Source())
	r.waitFor("all workloads", want)
	r.stop()
	if first := r.answers()[0]; fmt.Sprint(states(first)) != fmt.Sprint(want) {
		s.Errorf("the first report without an error has, by ID, %v, want %v", states(first), want)
	}
}

func (s *suite) emptyPlace() {
	r := start(s.T, s.Source())
	r.waitFor("a report without workloads", map[string]bool{})
}

func (s *suite) labelsArrive() {
	id := s.Start(map[string]string{
		labels.Service: "web", labels.Namespace: "shop", labels.Port + "http": "8000", labels.Port + "dns": "53/udp",
		labels.PodLabel + "tier": "front", labels.Weight: "3", labels.Ready: "tcp://:8000 period=2s", labels.Drain: "12s",
	})
	w := start(s.T, s.Source()).waitFor("the workload", map[string]bool{id: false}).Workloads[0]
	ports := slices.SortedFunc(slices.Values(w.Ports), func(a, b source.Port) int { return strings.Compare(a.Name, b.Name) })
	wrong := w.Service != "web" || w.Namespace != "shop" || w.Labels["tier"] != "front" || w.Weight == nil || *w.Weight != 3 || w.Drain != 12*time.Second ||
		w.Probe.GetTcpSocket().GetPort().GetNumber() != 8000 || w.Probe.GetPeriodSeconds() != 2 ||
		len(ports) != 2 || ports[0].Name != "dns" || ports[0].Number != 53 || ports[1].Name != "http" || ports[1].Number != 8000
	if wrong || len(w.Problems) > 0 {
		s.Errorf("the workload is %+v", w)
	}
}

func (s *suite) comeAndGo() {
	want := s.running(2)
	r := start(s.T, s.Source())
	r.waitFor("both workloads", want)
	maps.Copy(want, s.running(2))
	r.waitFor("the new workloads beside the others", want)
	gone := one(want)
	s.Kill(gone)
	delete(want, gone)
	r.waitFor("the others after one was killed", want)
	maps.Copy(want, s.running(1))
	r.waitFor("another new workload", want)
}

func (s *suite) gracefulStop() {
	want := s.running(2)
	r := start(s.T, s.Source())
	r.waitFor("both workloads", want)
	stopped := one(want)
	s.Stop(stopped)
	want[stopped] = true
	r.waitFor("one of them to be terminating", want)
	s.Finish(stopped)
	delete(want, stopped)
	r.waitFor("the end of the one that was stopped", want)
	r.stop()
	s.inOrder(r, stopped)
}

// inOrder checks that a workload was reported as running, then as terminating, then not at all.
func (s *suite) inOrder(r *record, id string) {
	var seen []string
	for _, report := range r.answers() {
		state := "gone"
		if terminating, there := states(report)[id]; terminating {
			state = "terminating"
		} else if there {
			state = "running"
		}
		if len(seen) == 0 || seen[len(seen)-1] != state {
			seen = append(seen, state)
		}
	}
	if want := []string{"running", "terminating", "gone"}; !slices.Equal(seen, want) {
		s.Errorf("the workload was reported as %q, want %q", seen, want)
	}
}

func (s *suite) badLabels() {
	want := s.running(1)
	s.Start(map[string]string{labels.Service: "No Name", labels.Port + "http": "8000"})
	half := backendOf("web")
	half[labels.Weight] = "heavy"
	half[labels.Ready] = "nonsense"
	id := s.Start(half)
	want[id] = false
	report := start(s.T, s.Source()).waitFor("the workloads whose service can be read", want)
	if len(report.Problems) != 1 || report.Problems[0].Reason != source.ReasonInvalid {
		s.Errorf("the problems are %v, want one about the service that cannot be read", report.Problems)
	}
	for _, w := range report.Workloads {
		if w.ID != id {
			continue
		}
		if w.Probe != nil || w.Ready || w.Weight != nil || len(w.Problems) != 2 {
			s.Errorf("the workload with a bad weight and a bad check is %+v, want one that is never ready, with two problems", w)
		}
	}
}

// reportsLoss waits for a report of a lost connection.
func reportsLoss(r *record) {
	r.t.Helper()
	r.wait("a report of the lost connection", func(report source.Report) error {
		if report.Err == nil {
			return errors.New("the newest report has no error")
		}
		return nil
	})
}

func (s *suite) lostConnection() {
	want := s.running(2)
	r := start(s.T, s.Source())
	r.waitFor("both workloads", want)
	s.Disconnect()
	reportsLoss(r)
	s.Reconnect()
	r.waitFor("both workloads again", want)
	r.stop()
	for i, report := range r.answers() {
		if fmt.Sprint(states(report)) != fmt.Sprint(want) {
			s.Errorf("report %d has, by ID, %v, although nothing but the connection has changed", i, states(report))
		}
	}
}

func (s *suite) changesUnseen() {
	want := s.running(2)
	r := start(s.T, s.Source())
	r.waitFor("both workloads", want)
	s.Disconnect()
	reportsLoss(r)
	gone := one(want)
	s.Kill(gone)
	delete(want, gone)
	maps.Copy(want, s.running(1))
	s.Reconnect()
	r.waitFor("what there is after the reconnect", want)
}

func (s *suite) stableIDs() {
	want := s.running(2)
	first := start(s.T, s.Source())
	first.waitFor("both workloads", want)
	first.stop()
	start(s.T, s.Source()).waitFor("both workloads under their IDs", want)
}

func (s *suite) laterPlace() {
	want := s.running(1)
	s.Disconnect()
	r := start(s.T, s.Source())
	reportsLoss(r)
	s.Reconnect()
	r.waitFor("the workload", want)
}
