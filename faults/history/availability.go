package history

import (
	"maps"
	"slices"
	"time"
)

// Windows are the times in which clients of one kind were not served.
type Availability struct {
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
type request struct {
	began, ended time.Time
	served       bool
}

// Windows returns the times in which clients were not served, for each kind of client. A window
// begins with the first call that failed and ends with the first one after it that was served. A
// refusal by rule counts as served.
func (h *History) Availability() []Availability {
	requests := map[string]map[string][]request{}
	add := func(kind, client string, r request) {
		if requests[kind] == nil {
			requests[kind] = map[string][]request{}
		}
		requests[kind][client] = append(requests[kind][client], r)
	}
	for _, c := range h.Calls {
		kind := "read"
		if c.IsWrite() {
			kind = "write"
		}
		if !c.Ended.IsZero() && !c.ShortDeadline {
			add(kind, c.Client, request{c.Began, c.Ended, c.Outcome != Unknown})
		}
	}
	for _, a := range h.DNSAnswers {
		add("name", a.Server, request{a.Began, a.Ended, a.Rcode == "NOERROR" || a.Rcode == "NXDOMAIN"})
	}
	for _, a := range h.Probes {
		add("connect", a.Client+" "+a.Target.String(), request{a.Began, a.Ended, a.Error == ""})
	}
	var all []Availability
	for _, kind := range slices.Sorted(maps.Keys(requests)) {
		all = append(all, newAvailability(kind, requests[kind]))
	}
	return all
}

func newAvailability(kind string, clients map[string][]request) Availability {
	a := Availability{Kind: kind, Clients: len(clients)}
	var outages spans
	for _, requests := range clients {
		for _, r := range requests {
			if r.served {
				a.Served++
			} else {
				a.Failed++
			}
		}
		for _, s := range outagesOf(requests) {
			outages = append(outages, s)
			if length := s.length(); length > a.Longest {
				a.Longest, a.LongestFrom = length, s.from
			}
		}
	}
	a.Total = outages.total()
	return a
}

// unserved returns the windows of one client.
func outagesOf(requests []request) spans {
	var outages spans
	var since, last time.Time
	for _, r := range requests {
		switch {
		case !r.served && since.IsZero():
			since = r.began
		case r.served && !since.IsZero():
			outages = append(outages, span{since, r.ended})
			since = time.Time{}
		}
		last = r.ended
	}
	if !since.IsZero() {
		outages = append(outages, span{since, last})
	}
	return outages
}

type span struct{ from, to time.Time }

func (s span) length() time.Duration { return max(0, s.to.Sub(s.from)) }

type spans []span

// total returns the time that at least one span covers.
func (s spans) total() time.Duration {
	slices.SortFunc(s, func(a, b span) int { return a.from.Compare(b.from) })
	var total time.Duration
	var covered time.Time
	for _, next := range s {
		next.from = later(next.from, covered)
		total += next.length()
		covered = later(covered, next.to)
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
