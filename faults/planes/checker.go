package planes

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"portolan.dev/faults/check"
	"portolan.dev/faults/history"
	"portolan.dev/services/object"
)

// maxFindings is the maximum number of findings that are kept, because many findings usually have
// one cause.
const maxFindings = 20

// Checker checks that the data planes of nodes have the plan of the revision that their agents
// report.
type Checker struct{ Watchers []*Watcher }

// Run reads the nodes until ctx is done.
func (c Checker) Run(ctx context.Context) {
	var running sync.WaitGroup
	for _, w := range c.Watchers {
		running.Go(func() { w.Run(ctx) })
	}
	running.Wait()
}

var _ check.Checker = Checker{}

// Name implements check.Checker.
func (Checker) Name() string { return "planes" }

// Check implements check.Checker. It leaves out readings of revisions that the log does not have. A
// node without any other reading is a finding, because its state is unknown.
func (c Checker) Check(h *history.History) []check.Finding {
	var all []check.Finding
	for _, w := range c.Watchers {
		readings, lastErr := w.Readings()
		readings = slices.DeleteFunc(readings, func(r Reading) bool { return r.Low < h.Log.Base || r.MaxPlanRevision > h.Log.Head() })
		slices.SortStableFunc(readings, func(a, b Reading) int { return cmp.Compare(a.Low, b.Low) })
		if len(readings) == 0 {
			all = append(all, check.Finding{Check: c.Name(), Problem: fmt.Sprintf("%s was never read: %v", w.Node, lastErr), Final: true})
			continue
		}
		plans := planHistoryOf(&h.Log, w.Addresses)
		for i := range readings {
			plans.advance(readings[i].Low)
			reading := readingCheck{w, &readings[i], plans, nil}
			reading.checkKernel()
			reading.checkAgentPlan()
			all = append(all, reading.findings...)
		}
	}
	if more := len(all) - maxFindings; more > 0 {
		all = append(all[:maxFindings], check.Finding{Check: c.Name(), Problem: fmt.Sprintf("and %d more", more), Final: true})
	}
	return all
}

// readingCheck checks one reading.
type readingCheck struct {
	w        *Watcher
	r        *Reading
	plans    *planHistory // at the reading's lower revision
	findings []check.Finding
}

// checkKernel checks the content of the kernel.
func (c *readingCheck) checkKernel() {
	c.compare("the kernel", c.r.Kernel, c.r.High, c.w.FrontendsOnly, c.r.Restarted)
}

// checkAgentPlan checks the plan that the agent reports.
func (c *readingCheck) checkAgentPlan() {
	changed := c.compare("the agent's plan", c.r.AgentPlan, c.r.MaxPlanRevision, false, false)
	for _, at := range slices.SortedFunc(maps.Keys(c.r.NotProgrammed), compareFrontends) {
		services := slices.Collect(maps.Keys(c.plans.plan[at]))
		if len(services) != 1 || changed[at] != nil || c.failing(services) || c.plans.writtenUntil(services[0], c.r.MaxPlanRevision) {
			continue
		}
		c.addFinding("the agent", at, services, "is reported as not programmed, though the revision is applied: %s", c.r.NotProgrammed[at])
	}
}

// compare compares content with the plans from the reading's lower revision to a higher one. With
// leftoversAllowed, the content may have frontends that are not planned. It returns the frontends
// that change between the revisions.
func (c *readingCheck) compare(what string, content Content, high uint64, frontendsOnly, leftoversAllowed bool) map[Frontend][]claims {
	changed := c.plans.changesUntil(high)
	all := map[Frontend]bool{}
	for at := range c.plans.plan {
		all[at] = true
	}
	for at := range changed {
		all[at] = true
	}
	for at := range content {
		all[at] = true
	}
	for _, at := range slices.SortedFunc(maps.Keys(all), compareFrontends) {
		versions := changed[at]
		if versions == nil {
			versions = []claims{c.plans.plan[at]}
		}
		b := boundsOf(versions, frontendsOnly)
		backends, present := content[at]
		switch {
		case c.failing(b.services):
		case present && !b.present && !leftoversAllowed:
			c.addFinding(what, at, b.services, "has %s, which is not planned", list(backends))
		case !present && !b.absent:
			c.addFinding(what, at, b.services, "is missing, want %s", list(b.most))
		case present && b.present && !frontendsOnly && !b.allows(backends):
			c.addFinding(what, at, b.services, "has %s, want at least %s, at most %s", list(backends), list(b.least), list(b.most))
		}
	}
	return changed
}

// failing reports whether the agent reports one of the services as failing.
func (c *readingCheck) failing(services []object.Key) bool {
	return slices.ContainsFunc(services, func(s object.Key) bool { return c.r.Failing[s.Namespace+"/"+s.Name] })
}

func (c *readingCheck) addFinding(what string, at Frontend, services []object.Key, format string, args ...any) {
	var about object.Key
	if len(services) > 0 {
		about = services[0]
	}
	c.findings = append(c.findings, check.Finding{
		Check: Checker{}.Name(), Object: about, Final: true,
		Problem: fmt.Sprintf("%s, at %s, from revision %d to %d: %s: %s %s", c.w.Node, c.r.At.Format("15:04:05.000"), c.r.Low, c.r.High,
			what, at, fmt.Sprintf(format, args...)),
	})
}

// bounds are the backends that a frontend must have (least) and may have (most).
type bounds struct {
	least, most []string
	// present reports whether the frontend is planned at one of the revisions, and absent whether
	// it is not planned at one of them.
	present, absent bool
	services        []object.Key // that claimed it
}

// boundsOf returns the bounds of a frontend with successive versions of its claims. With
// backendsNeeded, a frontend without backends counts as not planned.
func boundsOf(versions []claims, backendsNeeded bool) bounds {
	var b bounds
	for _, current := range versions {
		planned := false
		for service, backends := range current {
			if !slices.Contains(b.services, service) {
				b.services = append(b.services, service)
			}
			if backendsNeeded && len(backends) == 0 {
				continue
			}
			planned = true
			b.add(backends)
		}
		b.absent = b.absent || !planned
	}
	slices.SortFunc(b.services, object.Compare)
	return b
}

// add adds the backends that were planned at one revision.
func (b *bounds) add(backends []string) {
	if !b.present {
		b.present, b.least = true, slices.Clone(backends)
	}
	b.least = slices.DeleteFunc(b.least, func(s string) bool { return !slices.Contains(backends, s) })
	for _, s := range backends {
		if !slices.Contains(b.most, s) {
			b.most = append(b.most, s)
		}
	}
	slices.Sort(b.most)
}

// allows reports whether backends are within the bounds.
func (b *bounds) allows(backends []string) bool {
	return !slices.ContainsFunc(b.least, func(s string) bool { return !slices.Contains(backends, s) }) &&
		!slices.ContainsFunc(backends, func(s string) bool { return !slices.Contains(b.most, s) })
}

func compareFrontends(a, b Frontend) int {
	return cmp.Or(a.Address.Compare(b.Address), cmp.Compare(a.Protocol, b.Protocol))
}

func list(backends []string) string { return "[" + strings.Join(backends, " ") + "]" }
