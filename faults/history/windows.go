package history

import (
	"maps"
	"slices"
	"time"
)

// Windows are the times in which clients of one kind were not served.
type Windows struct {
	// Kind is of clients: "write", "read", "name", "connect".
	Kind string
	// Clients is how many there are.
	Clients int
	// Longest is the longest time that one client was not served.
	Longest time.Duration
	// LongestFrom is when that time began.
	LongestFrom time.Time
	// Total is the time in which at least one client was not served.
	Total time.Duration
	// Failed and Served count calls.
	Failed, Served int
}

// use is one use of a service by a client.
type use struct {
	began, ended time.Time
	served       bool
}

// Windows returns the times in which clients were not served, for each kind of client. A window
// begins with the first call that failed and ends with the first one after it that was served. A
// refusal by rule counts as served.
func (h *History) Windows() []Windows {
	uses := map[string]map[string][]use{}
	note := func(kind, client string, u use) {
		if uses[kind] == nil {
			uses[kind] = map[string][]use{}
		}
		uses[kind][client] = append(uses[kind][client], u)
	}
	for _, c := range h.Calls {
		kind := "read"
		if c.Writes() {
			kind = "write"
		}
		if !c.Ended.IsZero() && !c.Impatient {
			note(kind, c.Client, use{c.Began, c.Ended, c.Outcome != Unknown})
		}
	}
	for _, a := range h.Answers {
		note("name", a.Server, use{a.Began, a.Ended, a.Rcode == "NOERROR" || a.Rcode == "NXDOMAIN"})
	}
	for _, a := range h.Attempts {
		note("connect", a.Client+" "+a.Target.String(), use{a.Began, a.Ended, a.Error == ""})
	}
	var all []Windows
	for _, kind := range slices.Sorted(maps.Keys(uses)) {
		all = append(all, windowsOf(kind, uses[kind]))
	}
	return all
}

func windowsOf(kind string, clients map[string][]use) Windows {
	w := Windows{Kind: kind, Clients: len(clients)}
	var out spans
	for _, uses := range clients {
		for _, u := range uses {
			if u.served {
				w.Served++
			} else {
				w.Failed++
			}
		}
		for _, s := range unserved(uses) {
			out = append(out, s)
			if length := s.length(); length > w.Longest {
				w.Longest, w.LongestFrom = length, s.from
			}
		}
	}
	w.Total = out.total()
	return w
}

// unserved returns the windows of one client.
func unserved(uses []use) spans {
	var out spans
	var since, last time.Time
	for _, u := range uses {
		switch {
		case !u.served && since.IsZero():
			since = u.began
		case u.served && !since.IsZero():
			out = append(out, span{since, u.ended})
			since = time.Time{}
		}
		last = u.ended
	}
	if !since.IsZero() {
		out = append(out, span{since, last})
	}
	return out
}

type span struct{ from, to time.Time }

func (s span) length() time.Duration { return max(0, s.to.Sub(s.from)) }

type spans []span

// total returns the time that at least one span covers.
func (s spans) total() time.Duration {
	slices.SortFunc(s, func(a, b span) int { return a.from.Compare(b.from) })
	var total time.Duration
	var covered time.Time
	for _, one := range s {
		one.from = later(one.from, covered)
		total += one.length()
		covered = later(covered, one.to)
	}
	return total
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
