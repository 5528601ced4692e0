package check

import (
	"fmt"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/faults/history"
	rest "portolan.dev/portolan/e2e/churn/check"
	"portolan.dev/portolan/e2e/churn/model"
	"portolan.dev/services/object"
)

// Finding is a broken promise.
type Finding = rest.Finding

// Checker looks for broken promises in a history.
type Checker interface {
	// Name returns the name of the promise.
	Name() string
	// Check returns the broken promises. It may be called again with a longer history of the same
	// run.
	Check(h *history.History) []Finding
}

// Run runs the checkers and returns all their findings.
func Run(h *history.History, checkers ...Checker) []Finding {
	var all []Finding
	for _, c := range checkers {
		all = append(all, c.Check(h)...)
	}
	return all
}

// findings collects the findings of one checker. Only the first maxFindings are kept, because many
// findings usually have one cause.
type findings struct {
	check    string
	findings []Finding
	omitted  int
}

// maxFindings is the maximum number of findings that are kept for one checker.
const maxFindings = 20

func (f *findings) add(about object.Key, format string, args ...any) {
	if len(f.findings) == maxFindings {
		f.omitted++
		return
	}
	f.findings = append(f.findings, Finding{Check: f.check, Object: about, Problem: fmt.Sprintf(format, args...), Final: true})
}

func (f *findings) all() []Finding {
	if f.omitted > 0 {
		return append(f.findings, Finding{Check: f.check, Problem: fmt.Sprintf("and %d more", f.omitted), Final: true})
	}
	return f.findings
}

// World returns the world at the log's head, for the checkers of portolan/e2e/churn/check. It
// leaves out the EndpointSlices of controllers.
func World(log *history.Log) *model.World {
	world := model.New()
	for _, o := range log.Final() {
		switch o := o.(type) {
		case *corev1.Service, *corev1.Pod:
			world.Put(o)
		case *corev1.EndpointSlice:
			if o.GetMetadata().GetLabels()[object.LabelManagedBy] == "" {
				world.Put(o)
			}
		}
	}
	return world
}
