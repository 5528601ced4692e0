package main

import (
	"fmt"
	"io"
	"strings"
)

// totals is the sum over all packages. A package that was run twice counts with its second run.
type totals struct {
	passed   int
	failures []string
	skips    []skip
	flakes   []flake
	seen     map[string]bool // PACKAGE TEST, for all top-level tests
}

type skip struct{ test, reason string }

func (t *totals) add(p *pkg) {
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
