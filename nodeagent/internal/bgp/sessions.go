package bgp

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	nodeagentv1 "portolan.dev/api/nodeagent/v1"

	"portolan.dev/nodeagent/machine"
)

// sessionGrace is the time after which a peer without a first session is shown as a fault.
const sessionGrace = 30 * time.Second

// session is the state of the session with a peer.
type session struct {
	established bool
	since       time.Time // of the state; zero: there was no session yet
	reason      string    // why it has ended; empty: it has not
}

// sessionChanged takes the beginning or the end of a session.
func (a *Advertiser) sessionChanged(peer machine.SpeakerPeer, established bool, reason string) {
	a.mu.Lock()
	a.sessions[peer] = session{established: established, since: time.Now(), reason: reason}
	a.mu.Unlock()
	a.metrics.session(peer, established)
	if established {
		a.opts.Log.Info("bgp: session established", "peer", peer.String())
	} else {
		a.opts.Log.Warn("bgp: session ended", "peer", peer.String(), "reason", reason)
	}
	a.warn()
}

// Status returns the state of advertising, or nil if it is off.
func (a *Advertiser) Status() *nodeagentv1.Routing {
	if !a.opts.Enabled() {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	s := &nodeagentv1.Routing{AsNumber: a.opts.AS, Eligible: a.eligible}
	if a.routerID.IsValid() {
		s.RouterId = a.routerID.String()
	}
	if a.failure != nil {
		s.Error = a.failure.Error()
	}
	for _, addr := range slices.SortedFunc(maps.Keys(a.advertised), netip.Addr.Compare) {
		s.Addresses = append(s.Addresses, addr.String())
	}
	for _, peer := range a.peers {
		one := &nodeagentv1.RoutingPeer{Peer: peer.String()}
		if state, known := a.sessions[peer]; known {
			one.Established, one.Since, one.Reason = state.established, timestamppb.New(state.since), state.reason
		}
		s.Peers = append(s.Peers, one)
	}
	return s
}

// warn shows peers without a session and a failed change as a warning of the agent's health.
func (a *Advertiser) warn() {
	a.mu.Lock()
	defer a.mu.Unlock()
	var faults []string
	for _, peer := range a.peers {
		s, known := a.sessions[peer]
		switch {
		case known && !s.established:
			faults = append(faults, fmt.Sprintf("no session with %s since %s: %s", peer, s.since.UTC().Format(time.RFC3339), s.reason))
		case !known && time.Since(a.opened) > sessionGrace:
			faults = append(faults, fmt.Sprintf("no session with %s since the start", peer))
		}
	}
	if a.failure != nil {
		faults = append(faults, a.failure.Error())
	}
	if len(faults) == 0 {
		a.opts.Warn(nil)
		return
	}
	a.opts.Warn(errors.New(strings.Join(faults, "; ")))
}
