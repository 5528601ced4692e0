package reconcile

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/registrar/source"
	"portolan.dev/services/object"
)

// Source is the state of a source.
type Source struct {
	Name      string
	Connected bool
	Err       error
	Reported  time.Time // of the last report without an error; zero: none yet
	Workloads []Workload
	// Problems are the problems of containers and units that are not registered.
	Problems []source.Problem
}

// Workload is a workload with its pod.
type Workload struct {
	*source.Workload
	PodName object.Name
	Pod     *corev1.Pod // nil: not registered
	// Problems are all problems of the workload: with its labels, its service and its pod.
	Problems []source.Problem
}

// Status returns the state of all sources, by name.
func (r *Reconciler) Status() []Source {
	r.mu.Lock()
	var all []Source
	for name, state := range r.sources {
		one := Source{
			Name: name, Connected: state.err == nil && !state.reported.IsZero(), Err: state.err, Reported: state.reported, Problems: state.problems,
		}
		for pod, w := range state.pods {
			one.Workloads = append(one.Workloads, Workload{Workload: w, PodName: pod})
		}
		all = append(all, one)
	}
	r.mu.Unlock()
	slices.SortFunc(all, func(a, b Source) int { return strings.Compare(a.Name, b.Name) })
	for _, one := range all {
		for i := range one.Workloads {
			w := &one.Workloads[i]
			w.Pod = r.pod(w.PodName)
			w.Problems = slices.Concat(w.Workload.Problems, r.problems.of("pod "+w.PodName.String()))
		}
		slices.SortFunc(one.Workloads, func(a, b Workload) int {
			return cmp.Or(a.PodName.Compare(b.PodName), strings.Compare(a.ID, b.ID))
		})
	}
	return all
}
