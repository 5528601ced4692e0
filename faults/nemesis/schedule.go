package nemesis

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// A Fault is a kind of fault with its time and the machines that it affects.
type Fault struct {
	Round int
	// At is the time from the beginning of the round to the beginning of the fault. For is its
	// length.
	At, For time.Duration
	Kind    string
	Targets []string // names of machines
}

// String returns the fault as a line of a schedule.
func (f Fault) String() string {
	return strings.TrimSpace(fmt.Sprintf("%d %s %s %s %s", f.Round, f.At, f.For, f.Kind, strings.Join(f.Targets, " ")))
}

// Schedule is a list of faults, sorted by round and beginning.
type Schedule []Fault

// String returns the schedule as text in the format of Parse.
func (s Schedule) String() string {
	var b strings.Builder
	for _, f := range s {
		b.WriteString(f.String() + "\n")
	}
	return b.String()
}

// Parse reads a schedule. Each line describes a fault: round, beginning, length, kind and machines.
// Parse skips empty lines and lines that begin with #.
func Parse(r io.Reader) (Schedule, error) {
	var s Schedule
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		f, err := parseFault(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		s = append(s, f)
	}
	return s, lines.Err()
}

func parseFault(line string) (Fault, error) {
	fields := strings.Fields(line)
	if len(fields) < 4 {
		return Fault{}, fmt.Errorf("%q: want round, beginning, length and kind", line)
	}
	f := Fault{Kind: fields[3], Targets: fields[4:]}
	if _, err := fmt.Sscan(fields[0], &f.Round); err != nil {
		return f, fmt.Errorf("round %q: %w", fields[0], err)
	}
	var err error
	if f.At, err = time.ParseDuration(fields[1]); err != nil {
		return f, fmt.Errorf("beginning: %w", err)
	}
	if f.For, err = time.ParseDuration(fields[2]); err != nil {
		return f, fmt.Errorf("length: %w", err)
	}
	k, ok := kinds[f.Kind]
	if !ok {
		return f, fmt.Errorf("unknown kind of fault %q", f.Kind)
	}
	if k.targets != len(f.Targets) {
		return f, fmt.Errorf("%s: %d machines, want %d", f.Kind, len(f.Targets), k.targets)
	}
	return f, nil
}

// Rounds returns the number of rounds.
func (s Schedule) Rounds() int {
	rounds := 0
	for _, f := range s {
		rounds = max(rounds, f.Round+1)
	}
	return rounds
}

// round returns the faults of a round.
func (s Schedule) round(n int) Schedule {
	return slices.DeleteFunc(slices.Clone(s), func(f Fault) bool { return f.Round != n })
}

// Shrink returns a schedule that has fewer faults and still fails. It removes ever smaller groups
// of faults, and restores a group if fails reports false without it.
func Shrink(s Schedule, fails func(Schedule) bool) Schedule {
	for size := len(s) / 2; size > 0; size /= 2 {
		for from := 0; from < len(s); {
			less := slices.Concat(s[:from], s[min(from+size, len(s)):])
			if len(less) > 0 && fails(less) {
				s = less
			} else {
				from += size
			}
		}
	}
	return s
}
