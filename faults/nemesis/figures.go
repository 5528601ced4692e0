package nemesis

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"portolan.dev/faults/history"
)

// Figures are the measurements of a run.
type Figures struct {
	Seed     uint64
	Schedule string
	Failed   bool
	Rounds   []Round
	// Restarts counts, by machine, how often the process ended by itself.
	Restarts map[string]int
}

// Round has the measurements of a round.
type Round struct {
	// Happened are the kinds of the faults that happened.
	Happened []string
	Failed   bool
	// Recorded is the number of records of each sort that the checkers had.
	Recorded map[string]int
	// Convergence is the time in nanoseconds from the end of the last fault until each component
	// was up to date.
	Convergence map[string]time.Duration
	// Unserved has the times without service of each kind of client.
	Unserved []history.Availability
}

// note stores the figures of a history.
func (r *Round) note(h *history.History) {
	r.Unserved = h.Availability()
	r.Recorded = map[string]int{
		"calls": len(h.Calls), "changes": len(h.Log.Changes), "answers": len(h.DNSAnswers), "attempts": len(h.Probes),
		"connections": len(h.Connections), "holdings": len(h.AllocationLists), "disturbances": len(h.Faults), "batches": 0,
	}
	for _, reading := range h.Watches {
		r.Recorded["batches"] += len(reading.Batches)
	}
}

// unrecorded returns the sorts of records that the whole run lacks. Their checkers had no input, so
// a run without findings would prove nothing.
func (f *Figures) unrecorded() []string {
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

// lines returns the figures of one run as text.
func (f *Figures) lines() []string {
	lines := append([]string{"what clients saw:"}, unserved([]*Figures{f})...)
	lines = append(lines, "until everything was right, after the last fault of a round was healed:")
	lines = append(lines, convergence([]*Figures{f})...)
	for _, name := range slices.Sorted(maps.Keys(f.Restarts)) {
		lines = append(lines, fmt.Sprintf("%s ended by itself %d times", name, f.Restarts[name]))
	}
	return lines
}

// Tables returns the figures of many runs as tables in Markdown: faults and outcomes, what clients
// saw, and convergence.
func Tables(all []*Figures) string {
	rounds, failed := 0, []uint64{}
	for _, f := range all {
		if f.Failed {
			failed = append(failed, f.Seed)
		}
		rounds += len(f.Rounds)
	}
	lines := []string{fmt.Sprintf("%d seeds, %d rounds; %d seeds failed: %d", len(all), rounds, len(failed), failed), ""}
	return strings.Join(slices.Concat(lines, outcomes(all), []string{""}, unserved(all), []string{""}, convergence(all)), "\n")
}

// outcomes returns a table of how often each kind of fault happened, and how many rounds with it
// failed.
func outcomes(all []*Figures) []string {
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

// unserved returns a table of the times without service, by kind of client.
func unserved(all []*Figures) []string {
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
		p50, worst := spread(s.longest)
		lines = append(lines, fmt.Sprintf("| %s | %d | %d | %s | %s |", kind, s.served, s.failed, p50, worst))
	}
	return lines
}

// convergence returns a table of the components' recovery times after the last fault of a round.
func convergence(all []*Figures) []string {
	times := map[string][]time.Duration{}
	for r := range eachRound(all) {
		for name, took := range r.Convergence {
			times[name] = append(times[name], took)
		}
	}
	lines := []string{"| component | p50 | worst | of rounds |", "|---|---|---|---|"}
	for _, name := range slices.Sorted(maps.Keys(times)) {
		p50, worst := spread(times[name])
		lines = append(lines, fmt.Sprintf("| %s | %s | %s | %d |", name, p50, worst, len(times[name])))
	}
	return lines
}

// spread returns the median and the maximum of times.
func spread(times []time.Duration) (p50, worst time.Duration) {
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
