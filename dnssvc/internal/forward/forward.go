package forward

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
)

// Config is the configuration of a forwarder.
type Config struct {
	Upstreams []Server
	Allow     []netip.Prefix // clients that may ask
	Entries   int            // number of cached answers
	Timeout   time.Duration  // of one server
	Stale     time.Duration  // how long an expired answer may be given if servers fail; 0: never
	Roots     *x509.CertPool // authorities of servers over TLS; nil: the authorities of the system
	Log       *slog.Logger
}

// Forwarder asks other name servers.
type Forwarder struct {
	cfg       Config
	cache     *cache
	upstreams []*upstream
	next      atomic.Uint32
	probe     string // suffix of the names by which the forwarder detects loops

	asked, failed, shared, stale atomic.Uint64

	// The first client of a question may give up, and the other clients must not suffer from it.
	// Questions therefore live as long as the forwarder.
	ctx  context.Context //nolint:containedctx // see above
	stop context.CancelFunc

	mu    sync.Mutex
	calls map[question]*call
}

// call is a question in progress, shared by all clients that asked it.
type call struct {
	done  chan struct{}
	reply *dns.Msg
	err   error
}

// New returns a forwarder.
func New(cfg Config) *Forwarder {
	f := &Forwarder{
		cfg: cfg, cache: newCache(cfg.Entries, cfg.Stale), calls: map[question]*call{},
		probe: "." + strings.ToLower(rand.Text()) + ".loop.invalid.",
	}
	f.ctx, f.stop = context.WithCancel(context.Background())
	for _, server := range cfg.Upstreams {
		f.upstreams = append(f.upstreams, &upstream{
			server: server, timeout: cfg.Timeout, now: time.Now, roots: cfg.Roots, idle: make(chan *dns.Conn, maxIdle),
		})
	}
	return f
}

// Allowed reports whether a client may ask for other names.
func (f *Forwarder) Allowed(client netip.Addr) bool {
	for _, p := range f.cfg.Allow {
		if p.Contains(client) {
			return true
		}
	}
	return false
}

// Exchange answers a question from the cache, from a call in progress, or by asking a server. The
// answer may be shared.
func (f *Forwarder) Exchange(ctx context.Context, q dns.Question) (*dns.Msg, error) {
	name := strings.ToLower(q.Name)
	if index, ok := strings.CutSuffix(name, f.probe); ok {
		f.markLoop(index)
		return nil, errors.New("an upstream server leads back here")
	}
	k := question{name, q.Qtype}
	m, fresh := f.cache.get(k)
	if fresh {
		return m, nil
	}
	f.mu.Lock()
	c, ok := f.calls[k]
	if !ok {
		c = &call{done: make(chan struct{})}
		f.calls[k] = c
	}
	f.mu.Unlock()
	switch {
	case ok:
		f.shared.Add(1)
	case m != nil:
		go f.resolve(c, k, q) // it ends with the forwarder
	default:
		f.resolve(c, k, q)
	}
	if m != nil {
		return f.waitOrStale(ctx, c, m)
	}
	select {
	case <-c.done:
		return c.reply, c.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// staleAfter is how long servers may take before a client gets an expired answer, if there is one.
// Clients ask again, or give up, after a few seconds (RFC 8767 proposes 1.8 s).
const staleAfter = time.Second

// waitOrStale returns the answer of a call, or the expired answer if the call fails or takes too
// long. The call continues, and the next client gets its answer.
func (f *Forwarder) waitOrStale(ctx context.Context, c *call, old *dns.Msg) (*dns.Msg, error) {
	timer := time.NewTimer(staleAfter)
	defer timer.Stop()
	select {
	case <-c.done:
		if c.err == nil {
			return c.reply, nil
		}
	case <-timer.C:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	f.stale.Add(1)
	return old, nil
}

// resolve asks the question and completes the call for all its clients.
func (f *Forwarder) resolve(c *call, k question, q dns.Question) {
	defer func() {
		f.mu.Lock()
		delete(f.calls, k)
		f.mu.Unlock()
		close(c.done)
	}()
	c.err = errors.New("asking was cut short") // in case ask panics
	c.reply, c.err = f.ask(f.ctx, q)
	if c.err == nil {
		c.reply.Extra = nil
		f.cache.put(k, c.reply)
	}
}

// maxTries is the largest number of servers that are asked one question.
const maxTries = 3

// ask tries servers until one answers. It returns a server's own report of failure if no server has
// a better answer.
func (f *Forwarder) ask(ctx context.Context, q dns.Question) (*dns.Msg, error) {
	f.asked.Add(1)
	var errs []error
	for _, u := range f.candidates() {
		reply, err := u.ask(ctx, q)
		if err == nil {
			return reply, nil
		}
		errs = append(errs, err)
	}
	f.failed.Add(1)
	if len(errs) == 0 {
		return nil, errors.New("no upstream server can be asked")
	}
	return nil, errors.Join(errs...)
}

// candidates returns the servers to try: the usable ones, starting with the next one each time. If
// none is usable, it returns all of them, since one may have recovered.
func (f *Forwarder) candidates() []*upstream {
	var well, rest []*upstream
	start := int(f.next.Add(1))
	for i := range f.upstreams {
		u := f.upstreams[(start+i)%len(f.upstreams)]
		switch {
		case u.usable():
			well = append(well, u)
		case !u.isLoop():
			rest = append(rest, u)
		}
	}
	all := slices.Concat(well, rest)
	return all[:min(len(all), maxTries)]
}

// probeEvery is the interval of the checks for upstream servers that lead back to this one.
const probeEvery = time.Minute

// Run checks for servers that lead back here until ctx is done. It then cuts off all questions.
func (f *Forwarder) Run(ctx context.Context) error {
	defer func() {
		f.stop()
		for _, u := range f.upstreams {
			u.closeIdle()
		}
	}()
	ticker := time.NewTicker(probeEvery)
	defer ticker.Stop()
	for {
		for i, u := range f.upstreams {
			if u.isLoop() {
				continue
			}
			// The answer does not matter. The probe succeeds if the question arrives at this
			// server.
			_, err := u.ask(ctx, dns.Question{Name: strconv.Itoa(i) + f.probe, Qtype: dns.TypeA, Qclass: dns.ClassINET})
			f.cfg.Log.Debug("looked for loops", "upstream", u.server, "result", fmt.Sprint(err))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func (f *Forwarder) markLoop(index string) {
	i, err := strconv.Atoi(index)
	if err != nil || i < 0 || i >= len(f.upstreams) {
		return
	}
	if f.upstreams[i].setLoop() {
		f.cfg.Log.Error("an upstream server leads back here and is not asked any more", "upstream", f.upstreams[i].server)
	}
}
