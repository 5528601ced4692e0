package check

import (
	"fmt"
	"testing"
	"time"

	"portolan.dev/faults/history"
)

// printLines adds lines of a daemon at an interval in seconds. The format receives the line's
// number.
func printLines(times int, every float64, format string) func(*historyBuilder) {
	return func(s *historyBuilder) {
		for n := range times {
			s.LogLines = append(s.LogLines, history.LogLine{Process: "d", At: second(float64(n) * every), Text: fmt.Sprintf(format, n)})
		}
	}
}

func TestLines(t *testing.T) {
	c := Lines{PerMinute: 5}
	const lost = `{"time":"t%[1]d","level":"WARN","msg":"connection lost","peer":"10.0.0.%[1]d:80"}`
	runTests(t, []checkerTest{
		{"a few lines", c, build(printLines(5, 1, lost)), ""},
		{"many lines", c, build(printLines(6, 1, lost)), "d printed more than 5 times within 5s: WARN connection lost"},
		{"many lines over a long time", c, build(printLines(20, 13, lost)), ""},
		{"many lines of an exception", Lines{PerMinute: 5, Except: func(string) bool { return true }}, build(printLines(6, 1, lost)), ""},
		{"the same line with other objects", c, build(printLines(6, 1, `pod "web-%d" is gone`)), `pod "…" is gone`},
		{"the same line with other addresses", c, build(printLines(6, 1, "dial fd00::%x: refused")), "dial #: refused"},
		{"different lines", c, build(printLines(4, 1, "one %d"), printLines(4, 1, "another %d")), ""},
		{"a panic", c, build(printLines(1, 1, "panic: %d")), "d: panic: 0"},
		{"a panic that was caught", c, build(printLines(1, 1, `{"level":"ERROR","msg":"object not applied","object":"default/web-%d"}`)), "default/web-0"},
	})
}

func TestAvailable(t *testing.T) {
	unknown := func(*history.Call) {}
	c := Available{Longest: map[string]time.Duration{"write": 2 * time.Second}}
	outage := build(call(history.Create, 1, 2, ok("u", 1, "a")), call(history.Update, 3, 4, unknown), call(history.Update, 5, 6, ok("u", 1, "a")))
	runTests(t, []checkerTest{
		{"an outage that is too long", c, outage, `a client of the kind "write" was not served for 3s`},
		{"a short outage", Available{Longest: map[string]time.Duration{"write": 4 * time.Second}}, outage, ""},
		{"no limit", Available{}, outage, ""},
		{"another kind", c, build(dnsAnswer("web", 1, ""), dnsAnswer("web", 9, "NOERROR")), ""},
	})
}

// TestRunLimitsFindings checks that the number of findings is limited.
func TestRunLimitsFindings(t *testing.T) {
	h := build()
	for n := range 2 * maxFindings {
		h.Calls = append(h.Calls, history.Call{Verb: history.Create, WriteID: fmt.Sprint(n), Outcome: history.OK, Ended: second(1)})
	}
	if found := Run(h, Writes{}); len(found) != maxFindings+1 || found[maxFindings].Problem != fmt.Sprintf("and %d more", maxFindings) {
		t.Errorf("%d findings, the last %v", len(found), found[len(found)-1])
	}
}
