package explain

import (
	"fmt"
	"io"
	"strings"

	"portolan.dev/services/terminal"
)

// State is the state of a link of the chain.
type State string

// States, the worst last.
const (
	OK      State = "ok"
	Notice  State = "notice"  // works, with a remark
	Unknown State = "unknown" // the daemon did not answer
	Broken  State = "broken"
)

// Step is one link of the chain.
type Step struct {
	Title  string   `json:"title"`
	State  State    `json:"state"`
	Lines  []string `json:"lines,omitempty"`
	Remedy string   `json:"remedy,omitempty"` // how to repair it
}

// Report is the whole chain.
type Report struct {
	Service string `json:"service"`
	Steps   []Step `json:"steps"`
	Verdict string `json:"verdict"`
	Works   bool   `json:"works"` // no link is broken, as far as the daemons know
}

// addLine adds a line.
func (s *Step) addLine(format string, args ...any) {
	s.Lines = append(s.Lines, fmt.Sprintf(format, args...))
}

// setState sets a state and its remedy, which may be empty, unless the step already has a worse
// state.
func (s *Step) setState(state State, remedy string) {
	if rank[state] <= rank[s.State] {
		return
	}
	s.State, s.Remedy = state, remedy
}

var rank = map[State]int{OK: 0, Notice: 1, Unknown: 2, Broken: 3}

// notTried is the end of a verdict about a service with backends. The daemons know what was planned and
// programmed. A wrong target port, or a program that listens at 127.0.0.1 only, is not in their records.
const notTried = "; no connection was made, so it is not known whether a program listens at each backend"

// setVerdict sets the verdict, which names the first broken link. forwards is true if the service has
// backends that clients connect to.
func (r *Report) setVerdict(forwards bool) {
	untried := ""
	if forwards {
		untried = notTried
	}
	r.Works, r.Verdict = true, "no link is broken"+untried
	for _, step := range r.Steps {
		if step.State == Broken {
			r.Works = false
			r.Verdict = "the chain breaks at: " + step.Title
			if step.Remedy != "" {
				r.Verdict += "; " + step.Remedy
			}
			return
		}
	}
	for _, step := range r.Steps {
		if step.State == Unknown {
			r.Verdict = "nothing is broken as far as could be seen; not seen: " + step.Title + untried
			return
		}
	}
}

var marks = map[State]string{OK: "ok  ", Notice: "note", Unknown: "?   ", Broken: "FAIL"}

// Write prints the report as text.
func (r *Report) Write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Service %s\n", r.Service)
	for _, step := range r.Steps {
		fmt.Fprintf(&b, "\n[%s] %s\n", marks[step.State], terminal.Line(step.Title))
		for _, line := range step.Lines {
			fmt.Fprintf(&b, "       %s\n", terminal.Line(line))
		}
		if step.Remedy != "" {
			fmt.Fprintf(&b, "       -> %s\n", terminal.Line(step.Remedy))
		}
	}
	fmt.Fprintf(&b, "\n%s\n", terminal.Line(r.Verdict))
	_, err := io.WriteString(w, b.String())
	return err
}
