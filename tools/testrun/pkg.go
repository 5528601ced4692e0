package main

import (
	"io"
	"regexp"
	"strings"
	"time"
)

// event is one line of go test -json; see go doc cmd/test2json.
type event struct {
	Action      string
	Package     string
	Test        string
	Output      string
	FailedBuild string
	Elapsed     float64 // seconds
}

type state int

const (
	unfinished state = iota
	passed
	failed
	skipped
)

// pkg is the result of one run of one package.
type pkg struct {
	path        string
	state       state
	unbuildable bool
	elapsed     time.Duration
	tests       map[string]state
	order       []string // names of the tests, in the order of their start
	lines       []line
}

type line struct{ test, text string }

func newPkg(path string) *pkg { return &pkg{path: path, tests: map[string]state{}} }

// take adds an event and reports whether it ended the package.
func (p *pkg) take(e event) (ended bool) {
	if e.Test != "" {
		if _, known := p.tests[e.Test]; !known {
			p.tests[e.Test] = unfinished
			p.order = append(p.order, e.Test)
		}
	}
	var s state
	switch e.Action {
	case "output":
		p.lines = append(p.lines, line{e.Test, e.Output})
		return false
	case "pass":
		s = passed
	case "fail":
		s = failed
	case "skip":
		s = skipped
	default:
		return false
	}
	if e.Test != "" {
		p.tests[e.Test] = s
		return false
	}
	p.state, p.unbuildable = s, e.FailedBuild != ""
	p.elapsed = time.Duration(e.Elapsed * float64(time.Second))
	return true
}

// print writes go test's line for the package. If the package failed, it first writes all output of
// the tests that did not pass.
func (p *pkg) print(out io.Writer) {
	for _, l := range p.lines {
		verdict := l.test == "" && (strings.HasPrefix(l.text, "ok  \t") || strings.HasPrefix(l.text, "?   \t") || strings.HasPrefix(l.text, "FAIL\t"))
		if verdict || p.state == failed && p.of(l) {
			io.WriteString(out, l.text)
		}
	}
}

// of reports whether a line belongs to a failure, because it is the package's own line or a line of
// a test that neither passed nor was skipped.
func (p *pkg) of(l line) bool {
	if l.test == "" {
		return true
	}
	s := p.tests[l.test]
	return s == failed || s == unfinished
}

// failures returns the names of the failed tests. If the package failed without a failed test (no
// build, a panic outside tests), it returns the name of the package.
func (p *pkg) failures() []string {
	var names []string
	for _, name := range p.order {
		if s := p.tests[name]; s == failed || s == unfinished {
			names = append(names, p.path+" "+name)
		}
	}
	if len(names) == 0 && p.state == failed {
		return []string{p.path}
	}
	return names
}

// logged matches the output of t.Skip and t.Log: the place in the source, then the text.
var logged = regexp.MustCompile(`^\s+\S+\.go:\d+: (.*)`)

// reason returns the last message of a skipped test.
func (p *pkg) reason(test string) string {
	reason := "no reason given"
	for _, l := range p.lines {
		if l.test != test {
			continue
		}
		if m := logged.FindStringSubmatch(l.text); m != nil {
			reason = strings.TrimSpace(m[1])
		}
	}
	return reason
}
