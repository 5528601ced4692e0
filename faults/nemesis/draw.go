package nemesis

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Size is the size of a schedule.
type Size struct {
	Rounds int
	// Length is the time from the beginning of a round in which its faults begin and end.
	Length time.Duration
	// Faults is the largest number of faults in a round. A round has at least one.
	Faults int
	// Prepared allows kinds that take long to prepare: a downgrade needs a build of the previous
	// release.
	AllowPreparation bool
}

// step is the unit of drawn times, so that schedules are easy to read.
const timeStep = 100 * time.Millisecond

// Draw returns the schedule of a seed. machines are the names of all machines. Cuts also affect the
// machine "clients".
func Draw(seed uint64, size Size, machines []string) Schedule {
	var s Schedule
	for round := range size.Rounds {
		random := rand.New(rand.NewPCG(seed, uint64(round)))
		var drawn Schedule
		for range 1 + random.IntN(size.Faults) {
			f := drawFault(random, size, machines)
			f.Round = round
			if !slices.ContainsFunc(drawn, f.conflicts) {
				drawn = append(drawn, f)
			}
		}
		slices.SortStableFunc(drawn, func(a, b Fault) int { return int(a.At - b.At) })
		s = append(s, drawn...)
	}
	return s
}

func drawFault(random *rand.Rand, size Size, machines []string) Fault {
	f := Fault{Kind: pickKind(random, size)}
	k := kinds[f.Kind]
	steps := int64(size.Length / timeStep)
	f.At = time.Duration(random.Int64N(steps/2)) * timeStep
	f.For = time.Duration(1+random.Int64N(steps-int64(f.At/timeStep))) * timeStep
	if k.healLast {
		f.For = size.Length - f.At
	}
	f.Targets = drawTargets(random, k, machines)
	return f
}

func drawTargets(random *rand.Rand, k kind, machines []string) []string {
	if k.targets == 2 {
		var pairs [][]string
		all := append(slices.Clone(machines), "clients")
		for _, a := range all {
			for _, b := range all {
				if a != b && (connects(a, b) || connects(b, a)) {
					pairs = append(pairs, []string{a, b})
				}
			}
		}
		return pairs[random.IntN(len(pairs))]
	}
	if k.validTarget != nil {
		machines = slices.DeleteFunc(slices.Clone(machines), func(m string) bool { return !k.validTarget(m) })
	}
	var targets []string
	for _, n := range random.Perm(len(machines))[:k.targets] {
		targets = append(targets, machines[n])
	}
	return targets
}

// connects reports whether a machine opens connections to another one.
func connects(from, to string) bool {
	role := func(machine string) string {
		kind, _, _ := strings.Cut(machine, "-")
		return kind
	}
	switch role(to) {
	case "postgres":
		return role(from) == "postgres" || role(from) == "registry"
	case "nats":
		return role(from) != "postgres" && role(from) != "clients"
	case "registry":
		return role(from) != "postgres" && role(from) != "nats" && role(from) != "registry"
	case "allocator":
		return role(from) == "registry"
	case "dnssvc", "node":
		return role(from) == "clients"
	}
	return false
}

// conflicts reports whether two faults claim the same thing at the same time, or with less than a
// step between them.
func (f Fault) conflicts(g Fault) bool {
	if f.At > g.At+g.For+timeStep || g.At > f.At+f.For+timeStep {
		return false
	}
	mine := f.claims()
	return slices.ContainsFunc(g.claims(), func(c string) bool { return slices.Contains(mine, c) })
}

func (f Fault) claims() []string {
	if claims := kinds[f.Kind].claims; claims != nil {
		return claims(f.Targets)
	}
	return nil
}
