package localproxy

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	nodeagentv1 "portolan.dev/api/nodeagent/v1"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/statestream"
)

// maxAddresses is the largest number of addresses in each list of a message.
const maxAddresses = 4096

// MaxMessage is the largest message of a proxy in bytes. It has room for twice maxAddresses.
const MaxMessage = 1 << 19

var errReplaced = status.Error(codes.Aborted, "the proxy has opened another stream")

// Serve implements LocalProxyService.
func (p *Proxies) Serve(conn grpc.BidiStreamingServer[nodeagentv1.ServeRequest, nodeagentv1.ServeResponse]) error {
	// Without certificates there is no identity, and each caller may be the proxy of the node.
	if id, err := identity.Caller(conn.Context()); err == nil && (id.Role != identity.Edge || id.Name != p.opts.Node) {
		return apierr.PermissionDenied(fmt.Sprintf("%s may not serve addresses on node %q: use the certificate of edge/%s", id, p.opts.Node, p.opts.Node))
	}
	stream, first := statestream.New(), true
	defer p.closed(stream)
	receive := func(request *nodeagentv1.ServeRequest) error {
		m, violations := parseMessage(request)
		if len(violations) > 0 {
			return apierr.Invalid("ServeRequest", p.opts.Node, violations)
		}
		if !p.receive(stream, m, first) {
			return errReplaced
		}
		if first {
			stream.Wake()
		}
		first = false
		return nil
	}
	return statestream.Serve(stream, conn, "ServeMessages", receive, func() (*nodeagentv1.ServeResponse, error) { return p.answer(), nil })
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
		m.wanted[v.ParseAddr(fmt.Sprintf("addresses[%d]", i), text)] = true
	}
	for i, text := range r.GetReady() {
		m.ready = append(m.ready, v.ParseAddr(fmt.Sprintf("ready[%d]", i), text))
	}
	return m, v
}

// receive takes over the state in a message. The first message of a stream ends an earlier stream. receive
// returns false if a later stream has replaced this one.
func (p *Proxies) receive(stream *statestream.Stream, m message, first bool) bool {
	p.mu.Lock()
	if first {
		if p.current != nil {
			p.current.End(errReplaced)
		}
		p.opts.Log.Info("a proxy serves load-balancer addresses", "addresses", len(m.wanted), "ready", len(m.ready))
		p.current, p.since = stream, time.Now()
	}
	if p.current != stream {
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

// closed records that a stream has ended. If the agent itself stops, the state stays, because the proxy goes
// on without the agent.
func (p *Proxies) closed(stream *statestream.Stream) {
	p.mu.Lock()
	if p.current != stream || p.stopping() {
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
