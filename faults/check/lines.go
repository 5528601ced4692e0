package check

import (
	"encoding/json"
	"regexp"
	"strings"
	"time"

	"portolan.dev/faults/history"
	"portolan.dev/services/kit/guard"
	"portolan.dev/services/object"
)

// Lines checks that no daemon panics, also not in the work for one object, or repeats a log line too often. Lines that
// differ only in numbers, names and addresses count as the same line.
type Lines struct {
	// PerMinute is the number of times that a daemon may print a line within a minute.
	PerMinute int
	// Except reports whether a normalized line may be printed more often. Nil means that none may.
	Except func(line string) bool
}

// Name implements Checker.
func (Lines) Name() string { return "log lines" }

// Check implements Checker.
func (c Lines) Check(h *history.History) []Finding {
	x := findings{check: c.Name()}
	type kind struct{ process, line string }
	recent := map[kind][]time.Time{}
	reported := map[kind]bool{}
	for _, l := range h.LogLines {
		if strings.HasPrefix(l.Text, "panic: ") || strings.HasPrefix(l.Text, "fatal error: ") || strings.Contains(l.Text, guard.Message) {
			x.add(object.Key{}, "%s: %s", l.Process, l.Text)
		}
		k := kind{l.Process, normalize(l.Text)}
		times := append(recent[k], l.At)
		for l.At.Sub(times[0]) >= time.Minute {
			times = times[1:]
		}
		recent[k] = times
		if len(times) > c.PerMinute && !reported[k] && (c.Except == nil || !c.Except(k.line)) {
			reported[k] = true
			x.add(object.Key{}, "%s printed more than %d times within %s: %s\n\tlast: %s",
				l.Process, c.PerMinute, l.At.Sub(times[0]).Round(time.Second), k.line, l.Text)
		}
	}
	return x.all()
}

var (
	quoted = regexp.MustCompile(`"[^"]*"`)
	uid    = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	v6     = regexp.MustCompile(`\b[0-9a-f]{0,4}(:[0-9a-f]{0,4}){2,7}\b`)
	// wordWithDigit matches numbers, addresses, durations, and names such as pod-7 or
	// default/web-2.
	wordWithDigit = regexp.MustCompile(`[\w./:%-]*\d[\w./:%-]*`)
)

// normalize returns a line without its numbers, names and times. From a line in JSON it keeps only
// the level, the message and the error.
func normalize(text string) string {
	var entry struct{ Level, Msg, Err, Error string }
	if json.Unmarshal([]byte(text), &entry) == nil && entry.Msg != "" {
		text = strings.TrimSpace(strings.Join([]string{entry.Level, entry.Msg, entry.Err, entry.Error}, " "))
	}
	text = quoted.ReplaceAllString(text, `"…"`)
	text = uid.ReplaceAllString(text, "#")
	text = v6.ReplaceAllString(text, "#")
	return wordWithDigit.ReplaceAllString(text, "#")
}
