package packetfilter_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"portolan.dev/nodeagent/dataplane/packetfilter"
	"portolan.dev/nodeagent/kerneltest"
	"portolan.dev/nodeagent/kerneltest/topology"
	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/kit/kittest"
)

var (
	ranges   = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("fd00:96::/112")}
	standIns = []netip.Prefix{netip.MustParsePrefix("240.112.0.0/16"), netip.MustParsePrefix("fd70:6f72:746f:6c61::/64")}
	podNet   = []netip.Prefix{netip.MustParsePrefix("10.64.0.0/16"), netip.MustParsePrefix("fd00:64::/64")}
	nodeNet  = []netip.Prefix{netip.MustParsePrefix("172.31.1.1/32"), netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("255.255.255.255/32")}
	filtered = nftables.Table{Name: "portolan", Family: nftables.TableFamilyIPv4}
)

// newFilter returns a filter that is installed in a namespace of its own. It calls prepare, if not
// nil, before it installs the filter.
func newFilter(t *testing.T, prepare func(*packetfilter.Filter)) (*packetfilter.Filter, *topology.Namespace) {
	t.Helper()
	kerneltest.Need(t)
	ns := topology.New(t, "node")
	f, err := packetfilter.New(ns.Path, ranges, standIns)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	if prepare != nil {
		prepare(f)
	}
	if err := f.Install(); err != nil {
		t.Fatal(err)
	}
	if err := f.SetSources(podNet, nodeNet); err != nil {
		t.Fatal(err)
	}
	return f, ns
}

func drift(t *testing.T, f *packetfilter.Filter, ns *topology.Namespace) []string {
	t.Helper()
	tables, err := packetfilter.ReadTables(ns.Path)
	if err != nil {
		t.Fatal(err)
	}
	return f.Drift(tables)
}

func frontend(n int) plan.Frontend {
	return plan.Frontend{Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{203, 0, byte(n >> 8), byte(n)}), 80), Protocol: plan.TCP}
}

// someElements returns elements of every kind.
func someElements() []packetfilter.Element {
	v4, v6 := frontend(1), plan.Frontend{Addr: netip.MustParseAddrPort("[fd00:1::1]:443"), Protocol: plan.UDP}
	var out []packetfilter.Element
	for _, f := range []plan.Frontend{v4, v6} {
		for _, set := range []packetfilter.Set{packetfilter.DropInside, packetfilter.DropOutside, packetfilter.LimitInside, packetfilter.LimitOutside, packetfilter.LimitNode, packetfilter.RefuseSet, packetfilter.DeniedSet} {
			out = append(out, packetfilter.Frontend(set, f))
		}
		out = append(out, packetfilter.Masquerade(f, packetfilter.Pods|packetfilter.Node), packetfilter.Virtual(f.Addr.Addr()), packetfilter.Split(f, f.Addr.Addr().Next()))
		out = append(out, packetfilter.Allowed(f, []netip.Prefix{
			netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("192.0.2.0/25"), netip.MustParsePrefix("192.0.2.128/25"),
			netip.MustParsePrefix("2001:db8::/32"),
		})...)
	}
	return out
}

// TestFilterIsWhatIsCommitted checks that an audit finds the committed elements, and that removed
// elements are gone.
func TestFilterIsWhatIsCommitted(t *testing.T) {
	f, ns := newFilter(t, nil)
	all := someElements()
	for _, step := range []struct {
		what   string
		change packetfilter.Change
	}{
		{"removed before they are there", packetfilter.Change{Remove: all}},
		{"added", packetfilter.Change{Add: all}},
		{"added twice", packetfilter.Change{Add: all}},
		{"one of two removed", packetfilter.Change{Remove: all}},
	} {
		if err := f.Commit(step.change); err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		if found := drift(t, f, ns); len(found) > 0 {
			t.Errorf("%s: %q", step.what, found)
		}
	}
	if err := f.Commit(packetfilter.Change{Remove: all, Add: all[:3]}); err != nil {
		t.Fatal(err)
	}
	if found := drift(t, f, ns); len(found) > 0 {
		t.Errorf("replaced: %q", found)
	}
	if err := f.Remove(); err != nil {
		t.Fatal(err)
	}
	tables, err := packetfilter.ReadTables(ns.Path)
	if err != nil {
		t.Fatal(err)
	}
	if f.Drift(tables) == nil {
		t.Error("a filter that was removed is not missed")
	}
}

// TestForeignChangesAreSeen checks that an audit notices changes of elements, rules, chains and the
// table, even if their number stays the same; that changes by other programs are reported at once;
// and that the filter's own changes are not reported.
func TestForeignChangesAreSeen(t *testing.T) {
	f, ns := newFilter(t, nil)
	if err := f.Commit(packetfilter.Change{Add: someElements()}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-f.Changed():
		t.Error("our own changes count as foreign")
	default:
	}
	var conn *nftables.Conn
	err := ns.Do(func() (err error) {
		conn, err = nftables.New(nftables.AsLasting())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseLasting() //nolint:errcheck // the test is over
	table := filtered
	drops := &nftables.Set{Table: &table, Name: string(packetfilter.DropInside)}
	key := func(n int) []nftables.SetElement {
		return []nftables.SetElement{{Key: []byte(packetfilter.Frontend(packetfilter.DropInside, frontend(n)).Key)}}
	}
	drop := nftables.ChainPolicyDrop
	for name, harm := range map[string]func() error{
		"another element": func() error {
			return errors.Join(conn.SetDeleteElements(drops, key(1)), conn.SetAddElements(drops, key(2)))
		},
		"set flushed": func() error { conn.FlushSet(drops); return nil },
		"chain flushed": func() error {
			conn.FlushChain(&nftables.Chain{Table: &table, Name: "refuse"})
			return nil
		},
		"another rule": func() error {
			chain := &nftables.Chain{Table: &table, Name: "refuse"}
			conn.FlushChain(chain)
			for range 3 { // as many as before
				conn.AddRule(&nftables.Rule{Table: &table, Chain: chain, Exprs: []expr.Any{&expr.Verdict{Kind: expr.VerdictAccept}}})
			}
			return nil
		},
		"another policy": func() error {
			conn.AddChain(&nftables.Chain{
				Table: &table, Name: "protect", Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookInput,
				Priority: nftables.ChainPriorityRef(110), Policy: &drop,
			})
			return nil
		},
		"table deleted": func() error { conn.DelTable(&table); return nil },
	} {
		if err := errors.Join(harm(), conn.Flush()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		kittest.Eventually(t, name+" to be heard", func() error {
			select {
			case <-f.Changed():
				return nil
			default:
				return errors.New("nothing yet")
			}
		})
		if len(drift(t, f, ns)) == 0 {
			t.Errorf("%s: not seen", name)
		}
		if err := f.Install(); err != nil {
			t.Fatal(err)
		}
		if found := drift(t, f, ns); len(found) > 0 {
			t.Errorf("%s, repaired: %q", name, found)
		}
	}
}

// TestCommitMendsTheFilter checks that a change repairs the filter if the kernel refuses it because
// the filter was modified.
func TestCommitMendsTheFilter(t *testing.T) {
	f, ns := newFilter(t, nil)
	first := packetfilter.Frontend(packetfilter.DropInside, frontend(1))
	if err := f.Commit(packetfilter.Change{Add: []packetfilter.Element{first}}); err != nil {
		t.Fatal(err)
	}
	err := ns.Do(func() error {
		conn, err := nftables.New()
		if err != nil {
			return err
		}
		conn.FlushRuleset()
		return conn.Flush()
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Commit(packetfilter.Change{Add: []packetfilter.Element{packetfilter.Frontend(packetfilter.DropInside, frontend(2))}}); err != nil {
		t.Fatal(err)
	}
	if found := drift(t, f, ns); len(found) > 0 {
		t.Errorf("%q", found)
	}
}

// TestFullSet checks that if a set is full, the elements that fit are in it, the others are
// reported, and other sets are not affected. Refused elements are accepted once there is room.
func TestFullSet(t *testing.T) {
	const room = 100
	f, ns := newFilter(t, func(f *packetfilter.Filter) { f.SetLimit(packetfilter.DropInside, room) })
	var all []packetfilter.Element
	for n := range room + 7 {
		all = append(all, packetfilter.Frontend(packetfilter.DropInside, frontend(n)))
	}
	other := packetfilter.Frontend(packetfilter.DropOutside, frontend(1))
	err := f.Commit(packetfilter.Change{Add: append(all, other)})
	var refused *packetfilter.RefusedError
	if !errors.As(err, &refused) {
		t.Fatalf("got %v", err)
	}
	for e, cause := range refused.Elements {
		if e.Set != packetfilter.DropInside || !errors.Is(cause, unix.ENFILE) && !errors.Is(cause, unix.ENOSPC) {
			t.Errorf("%s: %v", e.Set, cause)
		}
	}
	if n := len(refused.Elements); n != 7 {
		t.Errorf("%d elements refused", n)
	}
	if found := drift(t, f, ns); len(found) > 0 {
		t.Errorf("%q", found)
	}
	var again []packetfilter.Element
	for e := range refused.Elements {
		again = append(again, e)
	}
	var gone []packetfilter.Element
	for _, e := range all {
		if len(gone) < 7 && refused.Elements[e] == nil {
			gone = append(gone, e)
		}
	}
	if err := f.Commit(packetfilter.Change{Remove: gone}); err != nil {
		t.Fatal(err)
	}
	if err := f.Commit(packetfilter.Change{Add: again}); err != nil {
		t.Errorf("with room: %v", err)
	}
	if found := drift(t, f, ns); len(found) > 0 {
		t.Errorf("%q", found)
	}
}

func TestAllowedRanges(t *testing.T) {
	f := frontend(1)
	for _, c := range []struct {
		prefixes string
		n        int
	}{{"10.0.0.0/8 10.1.0.0/16", 1}, {"192.0.2.0/25 192.0.2.128/25", 1}, {"192.0.2.0/25 192.0.3.0/24", 2}, {"2001:db8::/32", 0}, {"255.255.255.0/24 10.0.0.0/8", 2}} {
		var list []netip.Prefix
		for _, text := range strings.Fields(c.prefixes) {
			list = append(list, netip.MustParsePrefix(text))
		}
		if got := packetfilter.Allowed(f, list); len(got) != c.n {
			t.Errorf("%s: %d ranges, not %d", c.prefixes, len(got), c.n)
		}
	}
}
