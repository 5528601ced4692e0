package forward

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
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
	server  Server
	timeout time.Duration
	now     func() time.Time
	roots   *x509.CertPool // of certificates; nil: the system's
	idle    chan *dns.Conn // over TLS

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

func (u *upstream) ask(ctx context.Context, q dns.Question) (*dns.Msg, error) {
	m := new(dns.Msg)
	m.Id, m.RecursionDesired, m.Question = dns.Id(), true, []dns.Question{q}
	m.SetEdns0(askSize, false)
	reply, err := u.send(ctx, m)
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

// send asks by UDP, and by TCP for what does not fit, or over TLS. By UDP every question has a socket, and so a port, of its own: answers are
// hard to forge.
func (u *upstream) send(ctx context.Context, m *dns.Msg) (*dns.Msg, error) {
	if u.server.TLS {
		return u.exchangeTLS(ctx, m)
	}
	reply, err := u.exchange(ctx, "udp", m)
	if err == nil && reply.Truncated {
		return u.exchange(ctx, "tcp", m)
	}
	return reply, err
}

func (u *upstream) exchange(ctx context.Context, network string, m *dns.Msg) (*dns.Msg, error) {
	client := &dns.Client{Net: network, Timeout: u.timeout, UDPSize: askSize}
	conn, err := client.DialContext(ctx, u.server.Addr.String())
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", u.server, err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })() // the library waits for its timeout alone
	reply, _, err := client.ExchangeWithConnContext(ctx, m, conn)
	if err == nil {
		err = u.check(m, reply)
	}
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", u.server, err)
	}
	return reply, nil
}

// check returns an error for a message that does not answer m.
func (*upstream) check(m, reply *dns.Msg) error {
	asked := m.Question[0]
	if !reply.Response || len(reply.Question) != 1 || reply.Question[0].Qtype != asked.Qtype || !strings.EqualFold(reply.Question[0].Name, asked.Name) {
		return errors.New("the answer is to another question")
	}
	return nil
}
