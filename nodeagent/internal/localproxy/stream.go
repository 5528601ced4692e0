package localproxy

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	nodeagentv1 "portolan.dev/api/nodeagent/v1"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/wake"
)

// The limits of a message and of a stream.
const (
	maxAddresses = 4096
	// A proxy sends a message every few seconds, and one after each change.
	messagesPerSecond = 50
	messagesAtOnce    = 100
	// silentFor is the time without a message after which a proxy counts as dead.
	silentFor = 10 * time.Second
)

// MaxMessage is the largest message of a proxy in bytes. It has room for twice maxAddresses.
const MaxMessage = 1 << 19

type proxyStream = grpc.BidiStreamingServer[nodeagentv1.ServeRequest, nodeagentv1.ServeResponse]

// stream is an open stream of a proxy.
type stream struct {
	wake  wake.Signal // sent when an answer is due
	ended chan error  // receives the reason why the agent ends the stream
}

func (st *stream) wakeUp() {
	st.wake.Send()
}

// end ends the stream. Only the first reason counts.
func (st *stream) end(reason error) {
	select {
	case st.ended <- reason:
	default:
	}
}

var (
	errSilent   = status.Errorf(codes.Unavailable, "no message came for %s", silentFor)
	errTooMany  = apierr.Exhausted("ServeMessages", fmt.Sprintf("more than %d messages a second", messagesPerSecond))
	errReplaced = status.Error(codes.Aborted, "the proxy has opened another stream")
)

// Serve implements LocalProxyService.
func (p *Proxies) Serve(conn proxyStream) error {
	// Without certificates there is no identity, and each caller may be the proxy of the node.
	if id, err := identity.Caller(conn.Context()); err == nil && (id.Role != identity.Edge || id.Name != p.opts.Node) {
		return apierr.PermissionDenied(fmt.Sprintf("%s may not serve addresses on node %q: use the certificate of edge/%s", id, p.opts.Node, p.opts.Node))
	}
	st := &stream{wake: wake.New(), ended: make(chan error, 1)}
	defer p.closed(st)
	received := make(chan error, 1)
	go func() { received <- p.receiveAll(st, conn) }() // ends with the stream, when Serve returns
	for {
		select {
		case err := <-received:
			return err
		case err := <-st.ended:
			return err
		case <-st.wake:
			if err := conn.Send(p.answer()); err != nil {
				return err
			}
		}
	}
}

// receiveAll follows the messages of a stream until it ends.
func (p *Proxies) receiveAll(st *stream, conn proxyStream) error {
	limit := rate.NewLimiter(messagesPerSecond, messagesAtOnce)
	silent := time.AfterFunc(silentFor, func() { st.end(errSilent) })
	defer silent.Stop()
	for first := true; ; first = false {
		request, err := conn.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		silent.Reset(silentFor)
		if !limit.Allow() {
			return errTooMany
		}
		m, violations := parseMessage(request)
		if len(violations) > 0 {
			return apierr.Invalid("ServeRequest", p.opts.Node, violations)
		}
		if !p.receive(st, m, first) {
			return errReplaced
		}
		if first {
			st.wakeUp()
		}
	}
}

// message is a message of a proxy.
type message struct {
	wanted   map[netip.Addr]bool
	ready    []netip.Addr
	draining bool
}

// parseMessage returns a message in the form of this package, and its violations of the limits.
func parseMessage(r *nodeagentv1.ServeRequest) (message, apierr.Violations) {
	var v apierr.Violations
	m := message{wanted: map[netip.Addr]bool{}, draining: r.GetDraining()}
	if len(r.GetAddresses()) > maxAddresses || len(r.GetReady()) > maxAddresses {
		v.Add("addresses", "TOO_MANY", "at most %d addresses are possible", maxAddresses)
		return m, v
	}
	for i, text := range r.GetAddresses() {
		m.wanted[parseAddr(&v, fmt.Sprintf("addresses[%d]", i), text)] = true
	}
	for i, text := range r.GetReady() {
		m.ready = append(m.ready, parseAddr(&v, fmt.Sprintf("ready[%d]", i), text))
	}
	return m, v
}

func parseAddr(v *apierr.Violations, field, text string) netip.Addr {
	addr, err := netip.ParseAddr(text)
	if err != nil || addr.Zone() != "" || addr.Is4In6() {
		v.Add(field, "INVALID", "%q is no IP address", text)
	}
	return addr
}

// receive follows a message. The first one of a stream ends an earlier stream. receive reports whether
// the stream is the last one.
func (p *Proxies) receive(st *stream, m message, first bool) bool {
	p.mu.Lock()
	if first {
		if p.current != nil {
			p.current.end(errReplaced)
		}
		p.opts.Log.Info("a proxy serves load-balancer addresses", "addresses", len(m.wanted), "ready", len(m.ready))
		p.current, p.since = st, time.Now()
	}
	if p.current != st {
		p.mu.Unlock()
		return false
	}
	same := maps.Equal(p.wanted, m.wanted)
	p.wanted, p.ready, p.draining = m.wanted, m.ready, m.draining
	changed := p.setServed() || p.awaits
	p.awaits = false
	p.mu.Unlock()
	if changed {
		p.opts.Changed()
	}
	if first || !same {
		p.Wake()
	}
	return true
}

// closed notes that a stream has ended. If the agent itself ends, the proxy goes on without it.
func (p *Proxies) closed(st *stream) {
	p.mu.Lock()
	if p.current != st || p.stopping() {
		p.mu.Unlock()
		return
	}
	p.current, p.since, p.wanted, p.ready, p.draining, p.errs = nil, time.Now(), nil, nil, false, nil
	changed := p.setServed()
	p.mu.Unlock()
	p.opts.Log.Info("the proxy has gone")
	if changed {
		p.opts.Changed()
	}
	p.Wake()
}

// answer returns the current answer to the proxy.
func (p *Proxies) answer() *nodeagentv1.ServeResponse {
	p.mu.Lock()
	defer p.mu.Unlock()
	answer := &nodeagentv1.ServeResponse{}
	for _, addr := range slices.SortedFunc(maps.Keys(p.wanted), netip.Addr.Compare) {
		if p.local[addr] {
			answer.Local = append(answer.Local, addr.String())
		} else if text := p.errs[addr]; text != "" {
			answer.Errors = append(answer.Errors, &nodeagentv1.AddressError{Address: addr.String(), Error: text})
		}
	}
	return answer
}
