package announce

import (
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	loadbalancerv1 "portolan.dev/api/loadbalancer/v1"
)

// fakeProxy is a proxy that serves a set of addresses.
type fakeProxy map[netip.Addr]bool

func (p fakeProxy) Serves(addr netip.Addr) bool { return p[addr] }
func (p fakeProxy) Served() []netip.Addr        { return slices.SortedFunc(maps.Keys(p), netip.Addr.Compare) }
func (p fakeProxy) Kept() []netip.Addr          { return p.Served() }
func (p fakeProxy) Awaits() bool                { return false }

// TestRightsToProxiedAddresses checks in random histories that the node announces a proxied address
// only while the proxy serves it, and that it does not take back a right that it has not listed in a
// message since the last answer.
func TestRightsToProxiedAddresses(t *testing.T) {
	proxied, other := pool[0], pool[1]
	rapid.Check(t, func(rt *rapid.T) {
		proxy := fakeProxy{}
		h := NewHolder(func() time.Duration { return time.Hour }, "i", proxy.Serves)
		h.Begin()
		var answers, sequence uint64
		answered, givenUp := false, true // since the last answer
		rt.Repeat(map[string]func(*rapid.T){
			"begin to serve": func(*rapid.T) { proxy[proxied] = true },
			"end to serve":   func(*rapid.T) { delete(proxy, proxied) },
			"message": func(rt *rapid.T) {
				sequence++
				m := h.Message(State{Node: "n", Served: proxy.Served()})
				givenUp = givenUp || !proxy[proxied]
				if want := answered && !givenUp; slices.Contains(m.GetAddresses(), proxied.String()) != want {
					rt.Fatalf("message %v lists the proxied address: %v", m, !want)
				}
				if !slices.Equal(m.GetServed(), texts(proxy.Served())) {
					rt.Fatalf("message %v, want %v as served", m, proxy.Served())
				}
			},
			"withdraw": func(*rapid.T) {
				before := may(h, proxied)
				h.Withdraw()
				givenUp = givenUp || !proxy[proxied]
				if may(h, proxied) != before {
					rt.Fatalf("the node may announce the address: %v, and before it was asked what it gives up: %v", !before, before)
				}
			},
			"answer": func(rt *rapid.T) {
				if sequence == 0 {
					return
				}
				answers++
				began, _, refused := h.Follow(&loadbalancerv1.AnnounceResponse{
					Sequence: answers, AnsweredMessage: sequence, Validity: durationpb.New(time.Second),
					Addresses: texts(pool[:2]), Proxied: texts(pool[:1]),
				}, time.Now())
				answered, givenUp = true, !proxy[proxied]
				if refused != givenUp {
					rt.Fatalf("the answer was refused: %v", refused)
				}
				if slices.Contains(began, proxied) && !proxy[proxied] {
					rt.Fatal("the node begins to announce an address that no proxy serves")
				}
			},
			"": func(rt *rapid.T) {
				if may := may(h, proxied); may && (!proxy[proxied] || givenUp) || !may && answered && !givenUp && proxy[proxied] {
					rt.Fatalf("may announce: %v; served %v, given up %v", may, proxy[proxied], givenUp)
				}
				if may(h, other) != answered {
					rt.Fatal("the other address depends on the proxy")
				}
			},
		})
	})
}
