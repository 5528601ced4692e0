package reconcile

import (
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"portolan.dev/registrar/source"
	"portolan.dev/services/changes"
	"portolan.dev/services/object"
)

// TestAPodThatPanicsEndsNothing lets the work for the pod of one container panic. The pods of the others are written,
// and this one is written after a pause, or is put into the view after its next change.
func TestAPodThatPanicsEndsNothing(t *testing.T) {
	for _, step := range []string{"sync", changes.StepView} {
		t.Run(step, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				report := workload()
				bad := report.Workloads[0]
				bad.ID, bad.Name, bad.Addresses = "2", "bad", []string{"172.17.0.3"}
				report.Workloads = append(report.Workloads, bad)
				names := make([]object.Name, 2)
				for i := range names {
					names[i] = w.reconciler.cfg.Objects.PodName("docker", &report.Workloads[i])
				}
				w.guard.BreakName(names[1].Name, step)
				w.reconciler.Report("docker", report)
				w.expect("the report")
				w.mu.Lock()
				written := slices.Collect(maps.Keys(w.pods))
				w.mu.Unlock()
				if step == "sync" && !slices.Equal(written, names[:1]) || !slices.Contains(written, names[0]) {
					t.Errorf("the pods are %v, want %v", written, names[:1])
				}
				w.guard.Want("Pod " + names[1].String())
				if got := w.guard.Events(); len(got) != 1 {
					t.Errorf("events %q", got)
				}
				w.guard.Mend()
				time.Sleep(time.Minute)
				report.Workloads = slices.Clone(report.Workloads)
				report.Workloads[1].Ready = false
				w.reconciler.Report("docker", source.Report{Workloads: report.Workloads})
				w.expect("the next report")
				if pod := w.reconciler.cfg.View.Pod(names[1]); pod == nil {
					t.Errorf("the pod is not in the view")
				}
				w.guard.Want()
			})
		})
	}
}
