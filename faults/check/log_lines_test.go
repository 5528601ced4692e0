package check

import (
	"fmt"
	"testing"
	"time"

	"portolan.dev/faults/history"
)

// prints adds lines that a daemon prints every so often.
func printLines(times int, every float64, format string) func(*historyBuilder) {
	return func(s *historyBuilder) {
		for n := range times {
			s.LogLines = append(s.LogLines, history.LogLine{Process: "d", At: second(float64(n) * every), Text: fmt.Sprintf(format, n)})
		}
	}
}

func TestLogLines(t *testing.T) {
	c := LogLines{PerMinute: 5}
	const lost = `{"time":"t%[1]d","level":"WARN","msg":"connection lost","peer":"10.0.0.%[1]d:80"}`
	runTests(t, []checkerTest{
		{"a few", c, build(printLines(5, 1, lost)), ""},
		{"many", c, build(printLines(6, 1, lost)), "d said more than 5 times within 5s: WARN connection lost"},
		{"many, slowly", c, build(printLines(20, 13, lost)), ""},
		{"many allowed ones", LogLines{PerMinute: 5, Except: func(string) bool { return true }}, build(printLines(6, 1, lost)), ""},
		{"the same about other objects", c, build(printLines(6, 1, `pod "web-%d" is gone`)), `pod "…" is gone`},
		{"the same with other addresses", c, build(printLines(6, 1, "dial fd00::%x: refused")), "dial #: refused"},
		{"others", c, build(printLines(4, 1, "one %d"), printLines(4, 1, "another %d")), ""},
		{"a panic", c, build(printLines(1, 1, "panic: %d")), "d: panic: 0"},
	})
}

func TestAvailable(t *testing.T) {
	unknown := func(*history.Call) {}
	c := Available{Longest: map[string]time.Duration{"write": 2 * time.Second}}
	outage := build(call(history.Create, 1, 2, ok("u", 1, "a")), call(history.Update, 3, 4, unknown), call(history.Update, 5, 6, ok("u", 1, "a")))
	runTests(t, []checkerTest{
		{"away for too long", c, outage, `a client of the kind "write" was not served for 3s`},
		{"away for a while", Available{Longest: map[string]time.Duration{"write": 4 * time.Second}}, outage, ""},
		{"no bound", Available{}, outage, ""},
		{"another kind", c, build(dnsAnswer("web", 1, ""), dnsAnswer("web", 9, "NOERROR")), ""},
	})
}

// TestRunKeepsTheFirstFindings protects reports from being endless.
func TestRunKeepsTheFirstFindings(t *testing.T) {
	h := build()
	for n := range 2 * maxFindings {
		h.Calls = append(h.Calls, history.Call{Verb: history.Create, WriteID: fmt.Sprint(n), Outcome: history.OK, Ended: second(1)})
	}
	if found := Run(h, Writes{}); len(found) != maxFindings+1 || found[maxFindings].Problem != fmt.Sprintf("and %d more", maxFindings) {
		t.Errorf("%d findings, the last %v", len(found), found[len(found)-1])
	}
}
