package netfilter_test

import (
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"portolan.dev/nodeagent/dataplane/netfilter"
)

// TestPrefixesOfARange checks that the prefixes of a range merge into the same range, and that none is missing or
// can be left out.
func TestPrefixesOfARange(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		v6 := rapid.Bool().Draw(r, "v6")
		size := 4
		if v6 {
			size = 16
		}
		addr := func(name string) netip.Addr {
			b := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 127, 128, 254, 255}), size, size).Draw(r, name)
			a, _ := netip.AddrFromSlice(b)
			return a
		}
		want := netfilter.AddrRange{First: addr("first"), Last: addr("last")}
		if want.Last.Less(want.First) {
			want.First, want.Last = want.Last, want.First
		}
		prefixes := want.Prefixes()
		if got := netfilter.MergePrefixes(prefixes, v6); !slices.Equal(got, []netfilter.AddrRange{want}) {
			r.Fatalf("%v became %v and then %v", want, prefixes, got)
		}
		if len(prefixes) > 2*size*8 {
			r.Fatalf("%d prefixes for %v", len(prefixes), want)
		}
	})
}

func TestPrefixesOfWholeRanges(t *testing.T) {
	for _, text := range []string{"0.0.0.0/0", "10.96.0.0/16", "255.255.255.255/32", "::/0", "fd00:96::/112"} {
		p := netip.MustParsePrefix(text)
		r := netfilter.MergePrefixes([]netip.Prefix{p}, p.Addr().Is6())[0]
		if got := r.Prefixes(); !slices.Equal(got, []netip.Prefix{p}) {
			t.Errorf("%s became %v", p, got)
		}
	}
}
