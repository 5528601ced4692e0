package sourcetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"portolan.dev/registrar/source"
	"portolan.dev/services/kit/kittest"
)

// record keeps the reports of a running source.
type record struct {
	t     *testing.T
	stop  func() // ends the source and checks the result of Run
	calls atomic.Int32

	mu      sync.Mutex
	reports []source.Report
	texts   []string // of reports, as JSON at the time of the report
	ended   bool
}

// start runs a source until stop is called or the test ends.
func start(t *testing.T, s source.Source) *record {
	t.Helper()
	if s.Name() == "" {
		t.Error("the source has no name")
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &record{t: t}
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, r.report) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := kittest.Receive(t, "the end of Run", ended); err != nil {
			t.Errorf("Run returns %v after its context is done, want nil", err)
		}
		r.end()
	})
	t.Cleanup(r.stop)
	return r
}

// report stores a report and checks its form.
func (r *record) report(report source.Report) {
	if r.calls.Add(1) > 1 {
		r.t.Error("report is called while an earlier call runs: want calls of one goroutine")
	}
	defer r.calls.Add(-1)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		r.t.Error("report is called after Run has returned")
	}
	for _, fault := range faults(report) {
		r.t.Error(fault)
	}
	r.reports, r.texts = append(r.reports, report), append(r.texts, text(report))
}

// end checks that no report was changed after it was made.
func (r *record) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	for i, report := range r.reports {
		if now := text(report); now != r.texts[i] {
			r.t.Errorf("report %d was changed after it was made: it was\n%s, and is\n%s", i, r.texts[i], now)
		}
	}
}

func text(report source.Report) string {
	out, err := json.Marshal(struct {
		Workloads []source.Workload
		Problems  []source.Problem
		Err       string
	}{report.Workloads, report.Problems, fmt.Sprint(report.Err)})
	if err != nil {
		return err.Error()
	}
	return string(out)
}

// wait waits until the newest report passes a check, and returns it.
func (r *record) wait(what string, check func(source.Report) error) source.Report {
	r.t.Helper()
	var newest source.Report
	kittest.Eventually(r.t, what, func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(r.reports) == 0 {
			return errors.New("there is no report")
		}
		newest = r.reports[len(r.reports)-1]
		return check(newest)
	})
	return newest
}

// waitFor waits until the newest report has exactly the workloads with the given IDs. The value of an ID says
// whether the workload is terminating.
func (r *record) waitFor(what string, terminating map[string]bool) source.Report {
	r.t.Helper()
	return r.wait(what, func(report source.Report) error {
		if report.Err != nil {
			return report.Err
		}
		if got := states(report); fmt.Sprint(got) != fmt.Sprint(terminating) {
			return fmt.Errorf("terminating are, by ID, %v, want %v; the problems are %v", got, terminating, report.Problems)
		}
		return nil
	})
}

// answers returns the reports without an error. On a slow machine a source may lose its connection at any
// time.
func (r *record) answers() []source.Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.reports), func(report source.Report) bool { return report.Err != nil })
}

// states returns for the ID of each workload whether it is terminating.
func states(report source.Report) map[string]bool {
	all := map[string]bool{}
	for _, w := range report.Workloads {
		all[w.ID] = w.Terminating
	}
	return all
}

// faults returns the mistakes in the form of a report.
func faults(report source.Report) (found []string) {
	if report.Err != nil && len(report.Workloads)+len(report.Problems) > 0 {
		found = append(found, fmt.Sprintf("a report has an error (%v) and workloads or problems", report.Err))
	}
	seen := map[string]bool{}
	for i := range report.Workloads {
		w := &report.Workloads[i]
		if seen[w.ID] {
			found = append(found, fmt.Sprintf("two workloads have the ID %q", w.ID))
		}
		seen[w.ID] = true
		for _, fault := range append(identityFaults(w), placeFaults(w)...) {
			found = append(found, fmt.Sprintf("workload %q: %s", w.ID, fault))
		}
		found = append(found, problemFaults(w.Problems)...)
	}
	return append(found, problemFaults(report.Problems)...)
}

func identityFaults(w *source.Workload) (found []string) {
	if w.ID == "" || w.Name == "" || w.Service == "" {
		found = append(found, fmt.Sprintf("ID, name and service may not be empty: %q, %q, %q", w.ID, w.Name, w.Service))
	}
	if w.Probe == nil && !w.Ready && w.Reason == "" {
		found = append(found, "it is not ready without a reason")
	}
	if w.Drain < 0 {
		found = append(found, "the drain is negative")
	}
	return found
}

func placeFaults(w *source.Workload) (found []string) {
	names := map[string]bool{}
	for _, port := range w.Ports {
		if port.Name == "" || names[port.Name] || port.Number == 0 || port.Protocol == 0 {
			found = append(found, fmt.Sprintf("the port %+v has no number, no protocol or no name of its own", port))
		}
		names[port.Name] = true
	}
	if len(w.Ports) == 0 {
		found = append(found, "it has no ports")
	}
	var families []bool
	for _, address := range w.Addresses {
		addr, err := netip.ParseAddr(address)
		if err != nil || slices.Contains(families, addr.Is4()) {
			found = append(found, fmt.Sprintf("the addresses %q are not one of each family", w.Addresses))
		}
		families = append(families, addr.Is4())
	}
	if len(w.Addresses) == 0 && !w.HostNetwork {
		found = append(found, "it has no address and is not on the host's network")
	}
	return found
}

func problemFaults(problems []source.Problem) (found []string) {
	for _, p := range problems {
		if p.Object == "" || p.Message == "" || p.Reason == "" || strings.ContainsAny(p.Reason, " .:-_") {
			found = append(found, fmt.Sprintf("the problem %+v has no object, no message, or a reason that is not one word", p))
		}
	}
	return found
}
