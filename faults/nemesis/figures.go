package nemesis

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/faults/history"
)

// Figures are the measurements of a run.
type Figures struct {
	Seed     uint64
	Schedule string
	Failed   bool
	Rounds   []Round
	// Restarts has, by machine, the number of times that the process exited and was restarted.
	Restarts map[string]int
}

// Round has the measurements of a round.
type Round struct {
	// Happened has the kind of each fault that was injected.
	Happened []string
	Failed   bool
	// Recorded has the number of records that the checkers read, by the sort of record.
	Recorded map[string]int
	// Convergence has, for each component, the time in nanoseconds from the end of the last fault
	// until the component was up to date.
	Convergence map[string]time.Duration
	// Unserved has the times without service of each kind of client.
	Unserved []history.Availability
}

// measure sets Recorded and Unserved from a history.
func (r *Round) measure(h *history.History) {
	r.Unserved = h.Availability()
	r.Recorded = map[string]int{
		"calls": len(h.Calls), "changes": len(h.Log.Changes), "answers": len(h.DNSAnswers), "attempts": len(h.Probes),
		"connections": len(h.Connections), "holdings": len(h.AllocationLists), "disturbances": len(h.Faults), "batches": 0,
	}
	for _, reading := range h.Watches {
		r.Recorded["batches"] += len(reading.Batches)
	}
	r.Recorded["load balancers"] = balanced(h)
}

// balanced returns the number of changes that gave a service a load-balancer address.
func balanced(h *history.History) int {
	n := 0
	for s := range h.Log.Steps() {
		before, _ := s.Old.(*corev1.Service)
		after, _ := s.New.(*corev1.Service)
		if len(after.GetStatus().GetLoadBalancer().GetIngress()) > 0 && len(before.GetStatus().GetLoadBalancer().GetIngress()) == 0 {
			n++
		}
	}
	return n
}

// missingRecords returns the sorts of records that the whole run lacks. The checkers of such
// records had no input, so they could not find anything.
func (f *Figures) missingRecords() []string {
	sums := map[string]int{}
	for _, r := range f.Rounds {
		for sort, n := range r.Recorded {
			sums[sort] += n
		}
	}
	maps.DeleteFunc(sums, func(_ string, n int) bool { return n > 0 })
	return slices.Sorted(maps.Keys(sums))
}

// Append adds the figures to a file, as one line of JSON.
func (f *Figures) Append(path string) error {
	line, err := json.Marshal(f)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if _, err = file.Write(append(line, '\n')); err != nil {
		_ = file.Close()
		return err
	}
	return file.Close()
}

// report returns the figures of one run as lines of text.
func (f *Figures) report() []string {
	lines := append([]string{"service seen by clients:"}, unservedTable([]*Figures{f})...)
	lines = append(lines, "recovery times after the last fault of a round was healed:")
	lines = append(lines, convergenceTable([]*Figures{f})...)
	for _, name := range slices.Sorted(maps.Keys(f.Restarts)) {
		lines = append(lines, fmt.Sprintf("%s exited and was restarted %d times", name, f.Restarts[name]))
	}
	return lines
}

// Tables returns the figures of many runs as tables in Markdown: outcomes by kind of fault, service
// by kind of client, and recovery times by component.
func Tables(all []*Figures) string {
	rounds, failed := 0, []uint64{}
	for _, f := range all {
		if f.Failed {
			failed = append(failed, f.Seed)
		}
		rounds += len(f.Rounds)
	}
	lines := []string{fmt.Sprintf("%d seeds, %d rounds; %d seeds failed: %d", len(all), rounds, len(failed), failed), ""}
	return strings.Join(slices.Concat(lines, outcomeTable(all), []string{""}, unservedTable(all), []string{""}, convergenceTable(all)), "\n")
}

// outcomeTable returns a table with, for each kind of fault, the number of faults, of rounds with
// such a fault, and of such rounds that failed.
func outcomeTable(all []*Figures) []string {
	times, rounds, failed := map[string]int{}, map[string]int{}, map[string]int{}
	for r := range eachRound(all) {
		for n, kind := range r.Happened {
			times[kind]++
			if slices.Contains(r.Happened[:n], kind) {
				continue
			}
			rounds[kind]++
			if r.Failed {
				failed[kind]++
			}
		}
	}
	lines := []string{"| fault | times | rounds with it | of these failed |", "|---|---|---|---|"}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		lines = append(lines, fmt.Sprintf("| %s | %d | %d | %d |", kind, times[kind], rounds[kind], failed[kind]))
	}
	return lines
}

// unservedTable returns a table of the times without service, by kind of client.
func unservedTable(all []*Figures) []string {
	type sum struct {
		served, failed int
		longest        []time.Duration // of each round
	}
	sums := map[string]*sum{}
	for r := range eachRound(all) {
		for _, w := range r.Unserved {
			if sums[w.Kind] == nil {
				sums[w.Kind] = &sum{}
			}
			s := sums[w.Kind]
			s.served, s.failed, s.longest = s.served+w.Served, s.failed+w.Failed, append(s.longest, w.Longest)
		}
	}
	lines := []string{"| clients | served | not served | longest without service in a round, p50 | worst |", "|---|---|---|---|---|"}
	for _, kind := range slices.Sorted(maps.Keys(sums)) {
		s := sums[kind]
		p50, worst := medianAndMax(s.longest)
		lines = append(lines, fmt.Sprintf("| %s | %d | %d | %s | %s |", kind, s.served, s.failed, p50, worst))
	}
	return lines
}

// convergenceTable returns a table of the components' recovery times after the last fault of a
// round.
func convergenceTable(all []*Figures) []string {
	times := map[string][]time.Duration{}
	for r := range eachRound(all) {
		for name, took := range r.Convergence {
			times[name] = append(times[name], took)
		}
	}
	lines := []string{"| component | p50 | worst | of rounds |", "|---|---|---|---|"}
	for _, name := range slices.Sorted(maps.Keys(times)) {
		p50, worst := medianAndMax(times[name])
		lines = append(lines, fmt.Sprintf("| %s | %s | %s | %d |", name, p50, worst, len(times[name])))
	}
	return lines
}

// medianAndMax sorts times, and returns their median and maximum.
func medianAndMax(times []time.Duration) (p50, worst time.Duration) {
	slices.Sort(times)
	return times[(len(times)-1)/2].Round(time.Millisecond), times[len(times)-1].Round(time.Millisecond)
}

// eachRound yields the rounds of all runs.
func eachRound(all []*Figures) func(yield func(*Round) bool) {
	return func(yield func(*Round) bool) {
		for _, f := range all {
			for n := range f.Rounds {
				if !yield(&f.Rounds[n]) {
					return
				}
			}
		}
	}
}
