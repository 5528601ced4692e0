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
	// udpSize is the largest answer by UDP that the forwarder accepts, in bytes.
	udpSize = 1232
)

// upstream is one upstream server.
type upstream struct {
	server  Server
	timeout time.Duration
	now     func() time.Time
	roots   *x509.CertPool // authorities; nil: the authorities of the system
	idle    chan *dns.Conn // idle connections over TLS

	mu       sync.Mutex
	failures int // consecutive failures
	pause    time.Duration
	until    time.Time // not asked before this time
	loops    bool      // the upstream is this server
}

// usable reports whether the server should be asked now.
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

// setLoop records that the upstream is this server. It reports whether this was unknown before.
func (u *upstream) setLoop() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	was := u.loops
	u.loops = true
	return !was
}

// recordResult records the result of a question. The pause of a server grows with each failure in a
// row.
func (u *upstream) recordResult(err error) {
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

// errFailed is returned for an answer that reports a failure of the server.
var errFailed = errors.New("server failure")

func (u *upstream) ask(ctx context.Context, q dns.Question) (*dns.Msg, error) {
	m := new(dns.Msg)
	m.Id, m.RecursionDesired, m.Question = dns.Id(), true, []dns.Question{q}
	m.SetEdns0(udpSize, false)
	reply, err := u.send(ctx, m)
	if err == nil && reply.Rcode != dns.RcodeSuccess && reply.Rcode != dns.RcodeNameError {
		err = fmt.Errorf("%w: %s", errFailed, dns.RcodeToString[reply.Rcode])
	}
	if ctx.Err() == nil {
		u.recordResult(ignoreServerFailure(err))
	}
	return reply, err
}

// ignoreServerFailure drops errFailed, because a server that answers is reachable.
func ignoreServerFailure(err error) error {
	if errors.Is(err, errFailed) {
		return nil
	}
	return err
}

// send asks by UDP, with TCP for an answer that does not fit, or over TLS. By UDP every question
// has its own socket and therefore its own port, so that answers are hard to forge.
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
	client := &dns.Client{Net: network, Timeout: u.timeout, UDPSize: udpSize}
	conn, err := client.DialContext(ctx, u.server.Addr.String())
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", u.server, err)
	}
	defer conn.Close()
	// The library does not watch the context, only its own timeout.
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	reply, _, err := client.ExchangeWithConnContext(ctx, m, conn)
	if err == nil {
		err = u.checkReply(m, reply)
	}
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", u.server, err)
	}
	return reply, nil
}

// checkReply returns an error if reply does not answer m.
func (*upstream) checkReply(m, reply *dns.Msg) error {
	asked := m.Question[0]
	if !reply.Response || len(reply.Question) != 1 || reply.Question[0].Qtype != asked.Qtype || !strings.EqualFold(reply.Question[0].Name, asked.Name) {
		return errors.New("the answer is to another question")
	}
	return nil
}
