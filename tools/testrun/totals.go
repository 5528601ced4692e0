package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// totals is the sum over all packages. A package that was run twice counts with its second run.
type totals struct {
	passed   int
	failures []string
	skips    []skip
	flakes   []flake
	seen     map[string]bool // PACKAGE TEST, for all top-level tests
	times    []packageTime
}

type packageTime struct {
	path    string
	elapsed time.Duration
}

// slowest is the number of the slowest packages in the report.
const slowest = 20

type skip struct{ test, reason string }

func (t *totals) add(p *pkg) {
	t.times = append(t.times, packageTime{p.path, p.elapsed})
	for _, name := range p.order {
		t.seen[p.path+" "+name] = true
		switch p.tests[name] {
		case passed:
			t.passed++
		case skipped:
			t.skips = append(t.skips, skip{p.path + " " + name, p.reason(name)})
		}
	}
	t.failures = append(t.failures, p.failures()...)
}

// summarize writes the end of the report and reports whether nothing failed.
func (t *totals) summarize(out io.Writer, o options) bool {
	failures := len(t.failures)
	skips := 0
	fmt.Fprintln(out)
	t.summarizeTimes(out)
	for _, s := range t.skips {
		if o.strict && !strings.HasPrefix(s.reason, "allowed:") {
			failures++
			fmt.Fprintf(out, "FAIL\t%s: skipped where the real parts are required: %s\n", s.test, s.reason)
			continue
		}
		skips++
		fmt.Fprintf(out, "SKIP\t%s: %s\n", s.test, s.reason)
	}
	failures += t.summarizeFlakes(out, o)
	for _, name := range t.failures {
		fmt.Fprintln(out, "FAIL\t"+name)
	}
	fmt.Fprintf(out, "%d passed, %d failed, %d skipped\n", t.passed, failures, skips)
	return failures == 0
}

// summarizeTimes writes the times of the slowest packages, if any took a second.
func (t *totals) summarizeTimes(out io.Writer) {
	slices.SortStableFunc(t.times, func(a, b packageTime) int { return cmp.Compare(b.elapsed, a.elapsed) })
	for _, one := range t.times[:min(slowest, len(t.times))] {
		if one.elapsed >= time.Second {
			fmt.Fprintf(out, "TIME\t%5.0f s  %s\n", one.elapsed.Seconds(), one.path)
		}
	}
}

// summarizeFlakes writes the flakes and returns the number of those that are failures: all that are
// not listed, if they are more than may be.
func (t *totals) summarizeFlakes(out io.Writer, o options) (failures int) {
	unknown := 0
	for _, f := range t.flakes {
		if f.reason == "" {
			unknown++
		}
	}
	for _, f := range t.flakes {
		if o.strict && f.reason == "" && unknown > o.unknown {
			failures++
			fmt.Fprintf(out, "FAIL\t%s: failed once, passed when run alone: mend it, or list it with a reason\n", f.test)
			continue
		}
		fmt.Fprintln(out, f)
	}
	return failures
}
