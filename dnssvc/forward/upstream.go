package forward

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
)

const (
	failuresToDown = 2
	firstPause     = time.Second
	longestPause   = 30 * time.Second
	// askSize is the largest answer by UDP that we take.
	askSize = 1232
)

// upstream is one server that is asked.
type upstream struct {
	addr    netip.AddrPort
	timeout time.Duration
	now     func() time.Time

	mu       sync.Mutex
	failures int // in a row
	pause    time.Duration
	until    time.Time // left alone until then
	loops    bool      // it is ourselves
}

// usable says whether it is worth asking now.
func (u *upstream) usable() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return !u.loops && !u.now().Before(u.until)
}

func (u *upstream) isLoop() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.loops
}

// setLoop reports whether that was news.
func (u *upstream) setLoop() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	was := u.loops
	u.loops = true
	return !was
}

// report takes down how it went. A server that keeps failing is left alone for longer and longer.
func (u *upstream) report(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err == nil {
		u.failures, u.pause, u.until = 0, 0, time.Time{}
		return
	}
	if u.failures++; u.failures >= failuresToDown {
		u.pause = min(max(2*u.pause, firstPause), longestPause)
		u.until = u.now().Add(u.pause)
	}
}

// errFailed is an answer that says the server could not find out.
var errFailed = errors.New("server failure")

// ask asks by UDP, and by TCP for what does not fit. Every question has a socket, and so a port, of its own: answers are hard to forge.
func (u *upstream) ask(ctx context.Context, q dns.Question) (*dns.Msg, error) {
	m := new(dns.Msg)
	m.Id, m.RecursionDesired, m.Question = dns.Id(), true, []dns.Question{q}
	m.SetEdns0(askSize, false)
	reply, err := u.exchange(ctx, "udp", m)
	if err == nil && reply.Truncated {
		reply, err = u.exchange(ctx, "tcp", m)
	}
	if err == nil && reply.Rcode != dns.RcodeSuccess && reply.Rcode != dns.RcodeNameError {
		err = fmt.Errorf("%w: %s", errFailed, dns.RcodeToString[reply.Rcode])
	}
	if ctx.Err() == nil {
		u.report(unlessAnswered(err))
	}
	return reply, err
}

// unlessAnswered drops an error that shows that the server is there: it does not make it a bad one.
func unlessAnswered(err error) error {
	if errors.Is(err, errFailed) {
		return nil
	}
	return err
}

func (u *upstream) exchange(ctx context.Context, network string, m *dns.Msg) (*dns.Msg, error) {
	client := &dns.Client{Net: network, Timeout: u.timeout, UDPSize: askSize}
	reply, _, err := client.ExchangeContext(ctx, m, u.addr.String())
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", u.addr, err)
	}
	asked := m.Question[0]
	if !reply.Response || len(reply.Question) != 1 || reply.Question[0].Qtype != asked.Qtype || !strings.EqualFold(reply.Question[0].Name, asked.Name) {
		return nil, fmt.Errorf("ask %s: the answer is to another question", u.addr)
	}
	return reply, nil
}
