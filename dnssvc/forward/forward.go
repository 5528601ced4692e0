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

// Config says who is asked, and for whom.
type Config struct {
	Upstreams []Server
	Allow     []netip.Prefix // clients
	Entries   int            // answers to remember
	Timeout   time.Duration  // of one server
	Stale     time.Duration  // how long after its end an answer may be given when servers fail; 0: never
	Roots     *x509.CertPool // of the certificates of servers that are asked over TLS; nil: the system's
	Log       *slog.Logger
}

// Forwarder asks other name servers.
type Forwarder struct {
	cfg       Config
	cache     *cache
	upstreams []*upstream
	next      atomic.Uint32
	probe     string // ends the names by which we recognise ourselves

	asked, failed, shared, stale atomic.Uint64

	// Who asks first may lose patience, and the others should not have to suffer for it: questions live as long as the forwarder.
	life context.Context //nolint:containedctx // see above
	stop context.CancelFunc

	mu      sync.Mutex
	flights map[question]*flight
}

// flight is a question that is being asked, for all who want to know.
type flight struct {
	done  chan struct{}
	reply *dns.Msg
	err   error
}

// New returns a forwarder.
func New(cfg Config) *Forwarder {
	f := &Forwarder{
		cfg: cfg, cache: newCache(cfg.Entries, cfg.Stale), flights: map[question]*flight{},
		probe: "." + strings.ToLower(rand.Text()) + ".loop.invalid.",
	}
	f.life, f.stop = context.WithCancel(context.Background())
	for _, server := range cfg.Upstreams {
		f.upstreams = append(f.upstreams, &upstream{
			server: server, timeout: cfg.Timeout, now: time.Now, roots: cfg.Roots, idle: make(chan *dns.Conn, maxIdle),
		})
	}
	return f
}

// Allowed says whether a client may ask for other names.
func (f *Forwarder) Allowed(client netip.Addr) bool {
	for _, p := range f.cfg.Allow {
		if p.Contains(client) {
			return true
		}
	}
	return false
}

// Exchange answers a question: from memory, together with others who ask it, or by asking. The answer may be shared.
func (f *Forwarder) Exchange(ctx context.Context, q dns.Question) (*dns.Msg, error) {
	name := strings.ToLower(q.Name)
	if index, ok := strings.CutSuffix(name, f.probe); ok {
		f.foundLoop(index)
		return nil, errors.New("an upstream server leads back here")
	}
	k := question{name, q.Qtype}
	m, fresh := f.cache.get(k)
	if fresh {
		return m, nil
	}
	f.mu.Lock()
	fl, ok := f.flights[k]
	if !ok {
		fl = &flight{done: make(chan struct{})}
		f.flights[k] = fl
	}
	f.mu.Unlock()
	switch {
	case ok:
		f.shared.Add(1)
	case m != nil:
		go f.fly(fl, k, q) // it ends with the forwarder
	default:
		f.fly(fl, k, q)
	}
	if m != nil {
		return f.orStale(ctx, fl, m)
	}
	select {
	case <-fl.done:
		return fl.reply, fl.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// patience is how long servers may take before a client that could have an old answer gets that.
// Clients ask again, or give up, after a few seconds (RFC 8767 proposes 1.8 s).
const patience = time.Second

// orStale returns what a flight brings, or an answer that has outlived its time if the flight fails or
// takes too long. The flight goes on, and the next client gets what it brings.
func (f *Forwarder) orStale(ctx context.Context, fl *flight, old *dns.Msg) (*dns.Msg, error) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-fl.done:
		if fl.err == nil {
			return fl.reply, nil
		}
	case <-timer.C:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	f.stale.Add(1)
	return old, nil
}

// fly asks, and tells all who wait.
func (f *Forwarder) fly(fl *flight, k question, q dns.Question) {
	defer func() {
		f.mu.Lock()
		delete(f.flights, k)
		f.mu.Unlock()
		close(fl.done)
	}()
	fl.err = errors.New("asking was cut short") // should ask panic
	fl.reply, fl.err = f.ask(f.life, q)
	if fl.err == nil {
		fl.reply.Extra = nil
		f.cache.put(k, fl.reply)
	}
}

// maxTries bounds how many servers are asked one question.
const maxTries = 3

// ask tries servers until one answers. An answer that says the server failed is better than none.
func (f *Forwarder) ask(ctx context.Context, q dns.Question) (*dns.Msg, error) {
	f.asked.Add(1)
	var errs []error
	for _, u := range f.inTurn() {
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

// inTurn lists the servers to try: those that work, each time from the next one on; where none does, all of them, since one may have recovered.
func (f *Forwarder) inTurn() []*upstream {
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

// probeEvery is how often we look whether a server has become ourselves.
const probeEvery = time.Minute

// Run looks for servers that lead back here, until ctx is done. Then all questions are cut short.
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
			// Whatever comes back is of no interest; what matters is whether the question arrives here.
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

func (f *Forwarder) foundLoop(index string) {
	i, err := strconv.Atoi(index)
	if err != nil || i < 0 || i >= len(f.upstreams) {
		return
	}
	if f.upstreams[i].setLoop() {
		f.cfg.Log.Error("an upstream server leads back here and is not asked any more", "upstream", f.upstreams[i].server)
	}
}
