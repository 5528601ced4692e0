package dataplanetest

import (
	"context"
	"net"
	"net/netip"
	"testing"

	"portolan.dev/nodeagent/dataplane"
	"portolan.dev/nodeagent/plan"
)

// Vantage is where a client is.
type Vantage string

// The vantages. Those of Inside and Node are internal clients.
const (
	Inside  Vantage = "inside"  // a pod
	Node    Vantage = "node"    // the node itself
	Outside Vantage = "outside" // neither
)

// Traits are what planes may do differently.
type Traits struct {
	// SilentDrop: verdict Drop leaves a client without any answer. Otherwise it
	// is refused.
	SilentDrop bool
	// SCTP is forwarded. Otherwise adding such a server fails with
	// dataplane.ErrNotSupported.
	SCTP bool
	// Retries: a connection for a dead backend is carried by another one.
	Retries bool
	// CutsOnUse: a connection whose draining is over hears of it when it is used
	// next. Otherwise at once.
	CutsOnUse bool
	// IPv6 can be used on this machine.
	IPv6 bool
}

// Rig is a plane with clients and backends around it.
type Rig interface {
	// Plane is under test. It is empty at the start of each scenario and may be
	// the same one each time.
	Plane() dataplane.Plane
	Traits() Traits
	// Sources are those that make the vantages what they are.
	Sources() plan.Sources
	// ClientAddr is the address of the n-th client at a vantage.
	ClientAddr(from Vantage, n int, v6 bool) netip.Addr
	// Frontend returns an address and port that nothing else uses.
	Frontend(t testing.TB, p plan.Protocol, v6 bool) netip.AddrPort
	// Listen opens a socket for a backend, TCP or UDP, on an address of its own.
	Listen(t testing.TB, p plan.Protocol, v6 bool) (net.Listener, net.PacketConn)
	// Dial connects the n-th client at a vantage. When ctx ends, so does the try.
	Dial(ctx context.Context, from Vantage, n int, p plan.Protocol, to netip.AddrPort) (net.Conn, error)
}

// Run plays all scenarios, each on a rig made by newRig.
func Run(t *testing.T, newRig func(t *testing.T) Rig) {
	for _, s := range scenarios() {
		for _, p := range s.protocols() {
			t.Run(s.Name+"/"+p.String(), func(t *testing.T) {
				rig := newRig(t)
				if s.V6 && !rig.Traits().IPv6 {
					t.Skip("allowed: no IPv6 on this machine")
				}
				newWorld(t, rig, s, p).play()
			})
		}
	}
}
