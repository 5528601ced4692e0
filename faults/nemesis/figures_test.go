package nemesis

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"portolan.dev/faults/history"
)

// twoRuns returns the figures of a run that passed, and of a run that failed in its second round.
func twoRuns() []*Figures {
	round := func(failed bool, took, longest time.Duration, happened ...string) Round {
		return Round{
			Happened: happened, Failed: failed, Convergence: map[string]time.Duration{"slices": took},
			Recorded: map[string]int{"calls": 12, "answers": len(happened) - 1},
			Unserved: []history.Availability{{Kind: "write", Served: 10, Failed: 2, Longest: longest}},
		}
	}
	return []*Figures{
		{Seed: 1, Rounds: []Round{round(false, time.Second, 0, "kill", "kill", "cut")}},
		{Seed: 2, Failed: true, Rounds: []Round{round(false, 2*time.Second, time.Minute, "cut"), round(true, 3*time.Second, time.Second, "kill")}},
	}
}

// TestTables checks that a round with two faults of a kind counts as one round, and that only the
// rounds that failed count as failed.
func TestTables(t *testing.T) {
	got := Tables(twoRuns())
	for _, line := range []string{
		"2 seeds, 3 rounds; 1 seeds failed: [2]", "| kill | 3 | 2 | 1 |", "| cut | 2 | 2 | 0 |", "| pause | 0 | 0 | 0 |",
		"| write | 30 | 6 | 1s | 1m0s |", "| slices | 2s | 3s | 3 |",
	} {
		if !strings.Contains(got, line+"\n") && !strings.HasSuffix(got, line) {
			t.Errorf("no line %q in\n%s", line, got)
		}
	}
}

// TestMissingRecords checks that missingRecords returns the sorts of records that no round has.
func TestMissingRecords(t *testing.T) {
	all := twoRuns()
	if got := all[0].missingRecords(); len(got) > 0 {
		t.Errorf("the first run lacks %v, want nothing", got)
	}
	if got := all[1].missingRecords(); len(got) != 1 || got[0] != "answers" {
		t.Errorf("the second run lacks %v, want answers", got)
	}
}

// TestAppend checks that a file has a line for each run, with all of its figures.
func TestAppend(t *testing.T) {
	path := filepath.Join(t.TempDir(), "figures")
	all := twoRuns()
	for _, f := range all {
		if err := f.Append(path); err != nil {
			t.Fatal(err)
		}
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var read []*Figures
	for line := range strings.Lines(string(content)) {
		f := &Figures{}
		if err := json.Unmarshal([]byte(line), f); err != nil {
			t.Fatal(err)
		}
		read = append(read, f)
	}
	if got, want := Tables(read), Tables(all); got != want {
		t.Errorf("the file has the figures\n%s\nwant\n%s", got, want)
	}
}
