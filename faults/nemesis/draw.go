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
	// Faults is the largest number of faults in a round. A round has at least one fault.
	Faults int
	// AllowPreparation allows kinds that need a slow preparation, such as a downgrade, which needs
	// a build of the previous release.
	AllowPreparation bool
}

// timeStep is the unit of drawn times. It is coarse so that schedules are easy to read.
const timeStep = 100 * time.Millisecond

// Draw returns the schedule of a seed. The parameter machines has the names of all machines with
// processes. Faults between two machines may also affect the machine "clients".
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

// connects reports whether the machine from opens connections to the machine to.
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
		return role(from) == "registry" || role(from) == "lbctl"
	case "dnssvc", "node":
		return role(from) == "clients"
	}
	return false
}

// conflicts reports whether two faults claim the same resource, and overlap or are less than a
// timeStep apart.
func (f Fault) conflicts(g Fault) bool {
	if f.At > g.At+g.For+timeStep || g.At > f.At+f.For+timeStep {
		return false
	}
	mine := f.claims()
	return slices.ContainsFunc(g.claims(), func(c string) bool { return slices.Contains(mine, c) })
}

// claims returns the resources that no other fault may claim at the same time.
func (f Fault) claims() []string {
	if claims := kinds[f.Kind].claims; claims != nil {
		return claims(f.Targets)
	}
	return nil
}
