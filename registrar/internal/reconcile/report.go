package reconcile

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"portolan.dev/registrar/internal/objects"
	"portolan.dev/registrar/source"
	"portolan.dev/services/object"
)

// sourceState has the last report of a source.
type sourceState struct {
	reported time.Time // of the last report without an error; zero: none yet
	err      error     // of the last report
	pods     map[object.Name]*source.Workload
	problems []source.Problem // of containers and units that are not registered
}

// Report replaces the workloads of a source.
func (r *Reconciler) Report(from string, report source.Report) {
	r.mu.Lock()
	state := r.sources[from]
	if report.Err != nil {
		state.err = report.Err
		r.mu.Unlock()
		return
	}
	pods, refused := r.sort(from, report)
	state.problems = append(slices.Clone(report.Problems), refused...)
	first := state.reported.IsZero()
	due := changed(state.pods, pods)
	for name := range state.pods {
		delete(r.wanted, name)
	}
	for name, w := range pods {
		r.wanted[name] = &wanted{from: from, workload: w}
	}
	state.pods, state.reported, state.err = pods, time.Now(), nil
	found := slices.Concat(state.problems, workloadProblems(pods), shared(&r.cfg.Objects, pods))
	r.mu.Unlock()

	r.problems.set(from, object.Name{}, named(from, found))
	if first {
		due = append(due, r.cfg.View.Pods()...) // pods without a workload are ghosts
	}
	for _, name := range due {
		r.queue.Add(name, 1)
	}
}

// sort returns the workloads of a report by the names of their pods. It returns a problem for each workload
// that may not be registered.
func (r *Reconciler) sort(from string, report source.Report) (map[object.Name]*source.Workload, []source.Problem) {
	pods := make(map[object.Name]*source.Workload, len(report.Workloads))
	var refused []source.Problem
	for i := range report.Workloads {
		w := &report.Workloads[i]
		name := r.cfg.Objects.PodName(from, w)
		if r.cfg.Bound != "" && name.Namespace != r.cfg.Bound {
			refused = append(refused, source.Problem{Object: w.Name, Reason: objects.ReasonOtherNamespace, Message: fmt.Sprintf(
				"wants the namespace %s, and this registrar is bound to %s: leave out the namespace, or give the registrar a certificate for all namespaces", name.Namespace, r.cfg.Bound)})
			continue
		}
		pods[name] = w
	}
	return pods, refused
}

// changed returns the names of the pods with different workloads before and now.
func changed(before, now map[object.Name]*source.Workload) []object.Name {
	var names []object.Name
	for name, w := range now {
		if old := before[name]; old == nil || !reflect.DeepEqual(old, w) {
			names = append(names, name)
		}
	}
	for name := range before {
		if now[name] == nil {
			names = append(names, name)
		}
	}
	return names
}

// workloadProblems returns the problems of registered workloads.
func workloadProblems(pods map[object.Name]*source.Workload) []source.Problem {
	var found []source.Problem
	for _, w := range pods {
		found = append(found, w.Problems...)
	}
	return found
}

// shared returns a problem for each service with backends of several origins.
func shared(builder *objects.Builder, pods map[object.Name]*source.Workload) []source.Problem {
	origins := map[object.Name]map[string]string{} // by service: the name of one workload of each origin
	for _, w := range pods {
		service := builder.ServiceName(w)
		if w.Origin == "" {
			continue
		}
		if origins[service] == nil {
			origins[service] = map[string]string{}
		}
		if least := origins[service][w.Origin]; least == "" || w.Name < least {
			origins[service][w.Origin] = w.Name
		}
	}
	var found []source.Problem
	for service, workloads := range origins {
		if len(workloads) < 2 {
			continue
		}
		names := slices.Sorted(maps.Keys(workloads))
		found = append(found, source.Problem{Object: workloads[names[1]], Reason: objects.ReasonServiceShared, Message: fmt.Sprintf(
			"is of the %s, and %s of the %s, and both are backends of the service %s: unless that is wanted, give one of them another service or namespace",
			names[1], workloads[names[0]], names[0], service)})
	}
	return found
}
