package history

import (
	"maps"
	"slices"
	"time"
)

// Availability summarizes the outages of clients of one kind. An outage of a client is a time in
// which it was not served.
type Availability struct {
	// Kind is the kind of the clients: "write", "read", "name" or "connect".
	Kind string
	// Clients is the number of clients.
	Clients int
	// Longest is the longest outage of a client.
	Longest time.Duration
	// LongestFrom is the beginning of the longest outage.
	LongestFrom time.Time
	// Total is the time in which at least one client had an outage.
	Total time.Duration
	// Failed and Served are numbers of requests.
	Failed, Served int
}

// request is a call, DNS query or probe of a client.
type request struct {
	began, ended time.Time
	served       bool
}

// Availability returns the outages of each kind of client. An outage begins with the first request
// that fails, and ends when the next served request ends. A refused call and the DNS
// answer NXDOMAIN count as served.
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
	for _, p := range h.Probes {
		add("connect", p.Client+" "+p.Target.String(), request{p.Began, p.Ended, p.Error == ""})
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

// outagesOf returns the outages of one client. Its requests are in the order of time.
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

// total returns the time that at least one span covers. It sorts the spans.
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
