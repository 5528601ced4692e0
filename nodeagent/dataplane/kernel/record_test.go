package kernel_test

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"portolan.dev/nodeagent/dataplane/kernel"
	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/object"
)

func anyAddr(v6 bool) *rapid.Generator[netip.Addr] {
	return rapid.Custom(func(r *rapid.T) netip.Addr {
		if v6 {
			return netip.AddrFrom16([16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(r, "address")))
		}
		return netip.AddrFrom4([4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(r, "address")))
	})
}

func anyPrefix(v6 bool) *rapid.Generator[netip.Prefix] {
	return rapid.Custom(func(r *rapid.T) netip.Prefix {
		addr := anyAddr(v6).Draw(r, "prefix")
		return netip.PrefixFrom(addr, rapid.IntRange(0, addr.BitLen()).Draw(r, "bits")).Masked()
	})
}

var anyAttributes = rapid.Custom(func(r *rapid.T) plan.Attributes {
	return plan.Attributes{
		Service:  object.Name{Namespace: rapid.String().Draw(r, "namespace"), Name: rapid.String().Draw(r, "name")},
		PortName: rapid.String().Draw(r, "port"), Exposure: plan.Exposure(rapid.Byte().Draw(r, "exposure")),
		Scheduler: plan.Scheduler(rapid.Byte().Draw(r, "scheduler")), Flags: plan.Flags(rapid.Byte().Draw(r, "flags")),
		Affinity: time.Duration(rapid.Int64Min(0).Draw(r, "affinity")), Drain: time.Duration(rapid.Int64Min(0).Draw(r, "drain")),
		WithoutBackends: plan.NoBackendsAction(rapid.Byte().Draw(r, "verdict")), Masquerade: plan.Masquerade(rapid.Byte().Draw(r, "masquerade")),
		Restricted: rapid.Bool().Draw(r, "restricted"), Allowed: rapid.SliceOf(anyPrefix(rapid.Bool().Draw(r, "v6"))).Draw(r, "allowed"),
	}
})

// TestRecordsComeBack checks that the journal keeps a frontend without its backends.
func TestRecordsComeBack(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		v6 := rapid.Bool().Draw(r, "v6")
		at := plan.Frontend{
			Addr:     netip.AddrPortFrom(anyAddr(v6).Draw(r, "frontend"), rapid.Uint16().Draw(r, "port")),
			Protocol: rapid.SampledFrom([]plan.Protocol{plan.TCP, plan.UDP, plan.SCTP}).Draw(r, "protocol"),
		}
		var servers [3]*plan.VirtualServer
		for a := range servers {
			if rapid.Bool().Draw(r, "there") {
				servers[a] = &plan.VirtualServer{Key: plan.Key{Frontend: at, Audience: plan.Audience(a)}, Attributes: anyAttributes.Draw(r, "attributes")}
			}
		}
		key, value := kernel.EncodeFront(at, servers)
		got, err := kernel.DecodeFront(key, value)
		if err != nil {
			r.Fatal(err)
		}
		for a, want := range servers {
			if (want == nil) != (got[a] == nil) || want != nil && !got[a].Equal(want) {
				r.Fatalf("audience %d: got %+v, want %+v", a, got[a], want)
			}
		}
	})
}

func TestSourcesComeBack(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		want := plan.Sources{Pods: rapid.SliceOf(anyPrefix(false)).Draw(r, "pods"), Node: rapid.SliceOf(anyPrefix(true)).Draw(r, "node")}
		got, err := kernel.DecodeSources(kernel.EncodeSources(&want))
		if err != nil || !got.Equal(&want) {
			r.Fatalf("got %v, %v, want %v", got, err, want)
		}
	})
}

// TestDamagedRecords checks that a damaged entry causes an error or a different result, but never a
// crash.
func TestDamagedRecords(t *testing.T) {
	at := plan.Frontend{Addr: netip.MustParseAddrPort("10.96.0.1:80"), Protocol: plan.TCP}
	v := &plan.VirtualServer{Key: plan.Key{Frontend: at}, Attributes: plan.Attributes{Allowed: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}}
	key, value := kernel.EncodeFront(at, [3]*plan.VirtualServer{v})
	for i := range len(value) {
		if i > 2 { // shorter ones have no servers
			if _, err := kernel.DecodeFront(key, value[:i]); err == nil {
				t.Errorf("cut off at %d of %d: no error", i, len(value))
			}
		}
		for _, b := range []byte{0, 1, 0x7f, 0x80, 0xff} {
			damaged := slices.Clone([]byte(value))
			damaged[i] = b
			kernel.DecodeFront(key, string(damaged)) //nolint:errcheck // it may make sense
		}
	}
	if _, err := kernel.DecodeFront(key+"x", value); err == nil {
		t.Error("a key that is too long: no error")
	}
}
