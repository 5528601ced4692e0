package check

import (
	"fmt"
	"testing"
	"time"

	"portolan.dev/faults/history"
)

// prints adds lines that a daemon prints every so often.
func prints(times int, every float64, format string) func(*story) {
	return func(s *story) {
		for n := range times {
			s.Lines = append(s.Lines, history.Line{Process: "d", At: second(float64(n) * every), Text: fmt.Sprintf(format, n)})
		}
	}
}

func TestLines(t *testing.T) {
	c := Lines{PerMinute: 5}
	const lost = `{"time":"t%[1]d","level":"WARN","msg":"connection lost","peer":"10.0.0.%[1]d:80"}`
	demand(t, []verdict{
		{"a few", c, tell(prints(5, 1, lost)), ""},
		{"many", c, tell(prints(6, 1, lost)), "d said more than 5 times within 5s: WARN connection lost"},
		{"many, slowly", c, tell(prints(20, 13, lost)), ""},
		{"many allowed ones", Lines{PerMinute: 5, Except: func(string) bool { return true }}, tell(prints(6, 1, lost)), ""},
		{"the same about other objects", c, tell(prints(6, 1, `pod "web-%d" is gone`)), `pod "…" is gone`},
		{"the same with other addresses", c, tell(prints(6, 1, "dial fd00::%x: refused")), "dial #: refused"},
		{"others", c, tell(prints(4, 1, "one %d"), prints(4, 1, "another %d")), ""},
		{"a panic", c, tell(prints(1, 1, "panic: %d")), "d: panic: 0"},
	})
}

func TestAvailable(t *testing.T) {
	unknown := func(*history.Call) {}
	c := Available{Longest: map[string]time.Duration{"write": 2 * time.Second}}
	away := tell(call(history.Create, 1, 2, ok("u", 1, "a")), call(history.Update, 3, 4, unknown), call(history.Update, 5, 6, ok("u", 1, "a")))
	demand(t, []verdict{
		{"away for too long", c, away, `a client of the kind "write" was not served for 3s`},
		{"away for a while", Available{Longest: map[string]time.Duration{"write": 4 * time.Second}}, away, ""},
		{"no bound", Available{}, away, ""},
		{"another kind", c, tell(asked("web", 1, ""), asked("web", 9, "NOERROR")), ""},
	})
}

// TestRunKeepsTheFirstFindings protects reports from being endless.
func TestRunKeepsTheFirstFindings(t *testing.T) {
	h := tell()
	for n := range 2 * maxFindings {
		h.Calls = append(h.Calls, history.Call{Verb: history.Create, Mark: fmt.Sprint(n), Outcome: history.OK, Ended: second(1)})
	}
	if found := Run(h, Writes{}); len(found) != maxFindings+1 || found[maxFindings].Problem != fmt.Sprintf("and %d more", maxFindings) {
		t.Errorf("%d findings, the last %v", len(found), found[len(found)-1])
	}
}
