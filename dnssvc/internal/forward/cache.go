package forward

import (
	"container/list"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// Limits of the cache.
const (
	maxPositive = time.Hour
	maxNegative = 30 * time.Minute
	maxBytes    = 4096 // bytes; longer answers are not worth their memory
	staleTTL    = 30   // seconds; TTL of expired records (RFC 8767)
)

// cache holds the most recently used answers. It keeps them packed, because an unpacked answer is
// several times as large.
type cache struct {
	max   int
	stale time.Duration // how long answers are kept after they expire
	now   func() time.Time

	mu      sync.Mutex
	entries map[question]*list.Element
	order   list.List // of *entry, the most recently used first
	hits    uint64
	misses  uint64
}

// question is the key of a cached answer. The name is in lower case.
type question struct {
	name  string
	qtype uint16
}

type entry struct {
	question
	packed  []byte
	stored  time.Time
	expires time.Time
}

func newCache(entries int, stale time.Duration) *cache {
	return &cache{max: entries, stale: stale, now: time.Now, entries: map[question]*list.Element{}}
}

// get returns a cached answer, with the TTL of each record shortened by the answer's age, and
// reports whether it is fresh. An answer that is not fresh is used only if no upstream answers.
func (c *cache) get(q question) (m *dns.Msg, fresh bool) {
	e, fresh := c.find(q)
	if e == nil {
		return nil, false
	}
	m = new(dns.Msg)
	if err := m.Unpack(e.packed); err != nil {
		return nil, false // impossible: it was packed here
	}
	age := uint32(c.now().Sub(e.stored) / time.Second)
	for _, section := range [][]dns.RR{m.Answer, m.Ns} {
		for _, rr := range section {
			rr.Header().Ttl -= min(age, rr.Header().Ttl)
			if !fresh {
				rr.Header().Ttl = staleTTL
			}
		}
	}
	return m, fresh
}

func (c *cache) find(q question) (e *entry, fresh bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	element, ok := c.entries[q]
	if !ok {
		c.misses++
		return nil, false
	}
	e, _ = element.Value.(*entry)
	now := c.now()
	if !now.Before(e.expires.Add(c.stale)) {
		c.removeLocked(element)
		c.misses++
		return nil, false
	}
	c.order.MoveToFront(element)
	if fresh = now.Before(e.expires); fresh {
		c.hits++
	} else {
		c.misses++
	}
	return e, fresh
}

func (c *cache) removeLocked(element *list.Element) {
	e, _ := c.order.Remove(element).(*entry)
	delete(c.entries, e.question)
}

// put caches an answer if it may be cached.
func (c *cache) put(q question, m *dns.Msg) {
	life := cacheTTL(m)
	if life == 0 || c.max == 0 {
		return
	}
	packed, err := m.Pack()
	if err != nil || len(packed) > maxBytes {
		return
	}
	now := c.now()
	e := &entry{question: q, packed: packed, stored: now, expires: now.Add(life)}
	c.mu.Lock()
	defer c.mu.Unlock()
	if old, ok := c.entries[q]; ok {
		c.removeLocked(old)
	}
	c.entries[q] = c.order.PushFront(e)
	for c.order.Len() > c.max {
		c.removeLocked(c.order.Back())
	}
}

// cacheTTL returns how long an answer may be cached. That is the lowest TTL of its records. For an
// answer without records it is the time of the SOA record (RFC 2308). It returns 0 if the answer
// must not be cached.
func cacheTTL(m *dns.Msg) time.Duration {
	if m.Truncated || m.Rcode != dns.RcodeSuccess && m.Rcode != dns.RcodeNameError {
		return 0
	}
	negative := m.Rcode == dns.RcodeNameError
	ttl := uint32(maxPositive / time.Second)
	ends := false // the last record is no alias
	for _, rr := range m.Answer {
		ttl = min(ttl, rr.Header().Ttl)
		ends = rr.Header().Rrtype != dns.TypeCNAME || rr.Header().Rrtype == m.Question[0].Qtype
	}
	if !negative && ends {
		return time.Duration(ttl) * time.Second
	}
	for _, rr := range m.Ns {
		if soa, ok := rr.(*dns.SOA); ok {
			return min(maxNegative, time.Duration(min(ttl, soa.Hdr.Ttl, soa.Minttl))*time.Second)
		}
	}
	return 0
}

func (c *cache) stats() (hits, misses uint64, entries int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hits, c.misses, c.order.Len()
}
