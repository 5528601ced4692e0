package check

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"portolan.dev/faults/history"
	"portolan.dev/portolan/e2e/churn/model"
	"portolan.dev/services/object"
)

// Names checks that each answer about a service's addresses follows from a committed state that was
// current at most Lag before the query. SERVFAIL and missing answers are not findings here, because
// Available counts them.
type Names struct {
	Lag time.Duration
}

// Name implements Checker.
func (Names) Name() string { return "names" }

// Check implements Checker.
func (c Names) Check(h *history.History) []Finding {
	x := findings{check: c.Name()}
	type question struct{ name, kind string }
	timelines := map[question][]timedValue[string]{}
	for _, a := range h.DNSAnswers {
		key, ok := serviceOfName(a.Name)
		if !ok || a.Rcode != "NOERROR" && a.Rcode != "NXDOMAIN" || !a.Ended.Before(h.Log.ReadAt) {
			continue
		}
		q := question{a.Name, a.Type}
		if timelines[q] == nil {
			timelines[q] = timelineOf(h, map[object.Key]bool{key: true}, func(w *model.World) string { return expectedAnswer(w, a.Name, a.Type) })
		}
		got := a.Rcode + " " + strings.Join(a.Records, " ")
		if want := valuesBetween(h, timelines[q], a.Began, a.Ended, c.Lag); !slices.Contains(want, got) {
			slices.Sort(want)
			x.add(key, "%s answered %q to %s %s, the log allows %q within %s", a.Server, got, a.Name, a.Type, slices.Compact(want), c.Lag)
		}
	}
	return x.all()
}

// serviceOfName returns the service of a DNS name, and whether the name is a service's.
func serviceOfName(name string) (object.Key, bool) {
	rest, ok := strings.CutSuffix(name, ".svc."+model.Zone)
	service, namespace, dot := strings.Cut(rest, ".")
	return object.Key{Kind: "Service", Namespace: namespace, Name: service}, ok && dot && !strings.Contains(namespace, ".")
}

// expectedAnswer returns the answer of a name server with the given world.
func expectedAnswer(world *model.World, name, kind string) string {
	exists := false
	var records []string
	for _, lines := range world.Names() {
		for _, line := range lines {
			var owner, recordType, value string
			if n, _ := fmt.Sscan(line, &owner, &recordType, &value); n == 3 && owner == name {
				exists = true
				if recordType == kind {
					records = append(records, value)
				}
			}
		}
	}
	if !exists {
		return "NXDOMAIN "
	}
	slices.Sort(records)
	return "NOERROR " + strings.Join(records, " ")
}
