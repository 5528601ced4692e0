package nemesis

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestScheduleIsRepeatable checks that Draw returns the same schedule for the same seed, and that
// Parse returns the schedule that String printed.
func TestScheduleIsRepeatable(t *testing.T) {
	size := Size{Rounds: 5, Length: 5 * time.Second, Faults: 8}
	for seed := range uint64(100) {
		s := Draw(seed, size, machines())
		if again := Draw(seed, size, machines()); !reflect.DeepEqual(s, again) {
			t.Fatalf("seed %d: %v and then %v", seed, s, again)
		}
		read, err := Parse(strings.NewReader("# a comment\n\n" + s.String()))
		if err != nil || read.String() != s.String() {
			t.Fatalf("seed %d: %v\n%s\nwas read as\n%s", seed, err, s, read)
		}
	}
}

// TestScheduleHasAllKinds checks that each kind is drawn, and that faults of a round do not
// conflict.
func TestScheduleHasAllKinds(t *testing.T) {
	size := Size{Rounds: 200, Length: 5 * time.Second, Faults: 8, AllowPreparation: true}
	s := Draw(1, size, machines())
	counts := map[string]int{}
	for i, f := range s {
		counts[f.Kind]++
		if f.At+f.For > size.Length {
			t.Errorf("%s ends after its round", f)
		}
		for _, g := range s[:i] {
			if f.Round == g.Round && f.conflicts(g) {
				t.Errorf("%s and %s conflict", f, g)
			}
		}
	}
	for name := range kinds {
		if counts[name] == 0 {
			t.Errorf("%d faults, none of the kind %s", len(s), name)
		}
	}
	if s.Rounds() != size.Rounds {
		t.Errorf("%d rounds, want %d", s.Rounds(), size.Rounds)
	}
}

// TestScheduleWithoutPreparation checks that Draw returns no kinds that need a preparation unless
// AllowPreparation is set.
func TestScheduleWithoutPreparation(t *testing.T) {
	for _, f := range Draw(1, Size{Rounds: 200, Length: 5 * time.Second, Faults: 8}, machines()) {
		if kinds[f.Kind].prepare != nil {
			t.Errorf("%s needs a preparation", f)
		}
	}
}

func TestParseRejectsInvalidLines(t *testing.T) {
	for _, line := range []string{"0 1s kill", "x 1s 1s kill node-0", "0 1 1s kill node-0", "0 1s 1 kill node-0", "0 1s 1s bore node-0", "0 1s 1s cut node-0"} {
		if s, err := Parse(strings.NewReader(line)); err == nil {
			t.Errorf("%q was read as %v", line, s)
		}
	}
}

// TestShrink checks that Shrink returns only the faults that the failure needs.
func TestShrink(t *testing.T) {
	s := Draw(3, Size{Rounds: 4, Length: 5 * time.Second, Faults: 8}, machines())
	if len(s) < 10 {
		t.Fatalf("only %d faults", len(s))
	}
	needed := []string{s[2].String(), s[len(s)-3].String()}
	got := Shrink(s, func(s Schedule) bool {
		lines := strings.Split(s.String(), "\n")
		return slices.Contains(lines, needed[0]) && slices.Contains(lines, needed[1])
	})
	if lines := strings.Fields(strings.Join(needed, " ")); !slices.Equal(strings.Fields(got.String()), lines) {
		t.Errorf("got:\n%swant:\n%s", got, strings.Join(needed, "\n"))
	}
}
