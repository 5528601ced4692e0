package dev

import (
	"net/netip"
	"strings"
	"testing"
)

// TestOnlyThisMachineReachesDev checks that other machines cannot reach dev unless it is insecure,
// and that it never listens on all addresses.
func TestOnlyThisMachineReachesDev(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Options)
		want   string // empty: accepted
	}{
		"as it is":           {func(*Options) {}, ""},
		"another loopback":   {func(o *Options) { o.Bind = netip.MustParseAddr("127.0.0.2") }, ""},
		"a real address":     {func(o *Options) { o.Bind = netip.MustParseAddr("192.0.2.1") }, "--bind: other machines reach 192.0.2.1, and dev has no TLS: keep to 127.0.0.0/8, or accept it by --insecure"},
		"names for all":      {func(o *Options) { o.DNSAddr = netip.MustParseAddrPort("192.0.2.1:53") }, "--dns-addr: other machines reach 192.0.2.1"},
		"accepted":           {func(o *Options) { o.Bind, o.Insecure = netip.MustParseAddr("192.0.2.1"), true }, ""},
		"every address":      {func(o *Options) { o.Bind = netip.IPv4Unspecified() }, "--bind: 0.0.0.0 is every address; name one"},
		"every address too":  {func(o *Options) { o.Bind, o.Insecure = netip.IPv4Unspecified(), true }, "--bind: 0.0.0.0 is every address; name one"},
		"real virtual IPs":   {func(o *Options) { o.ServiceCIDR, o.Insecure = ranges("10.96.0.0/16"), true }, "--service-cidr: 10.96.0.0 is not a loopback address"},
		"real pod addresses": {func(o *Options) { o.PodCIDR, o.Insecure = ranges("10.64.0.0/16"), true }, "--pod-cidr: 10.64.0.0 is not a loopback address"},
		"both families": {func(o *Options) {
			o.ServiceCIDR, o.PodCIDR = ranges("127.96.0.0/16", "fd00:7f60::/112"), ranges("127.64.0.0/16", "fd00:7f64::/112")
		}, ""},
		"two of a family": {func(o *Options) { o.ServiceCIDR = ranges("127.96.0.0/16", "127.97.0.0/16") }, "--service-cidr: 127.97.0.0/16 is a second range of its family"},
		"public IPv6":     {func(o *Options) { o.PodCIDR = ranges("127.64.0.0/16", "2001:db8::/64") }, "--pod-cidr: 2001:db8:: is not a unique local address"},
		"overlap": {func(o *Options) {
			o.PodCIDR = ranges("127.64.0.0/16", "fd00:7f60::/64")
			o.ServiceCIDR = ranges("fd00:7f60::/112")
		}, "overlaps the service range fd00:7f60::/112"},
		"no room": {func(o *Options) { o.ServiceCIDR = ranges("fd00:7f60::/126") }, "use a /125 or larger"},
	} {
		o := Options{
			Bind: netip.MustParseAddr("127.0.0.1"), DNSAddr: netip.MustParseAddrPort("127.0.0.1:7053"),
			ServiceCIDR: ranges("127.96.0.0/16"), PodCIDR: ranges("127.64.0.0/16"),
		}
		c.change(&o)
		err := o.Validate()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func ranges(texts ...string) []netip.Prefix {
	prefixes := make([]netip.Prefix, 0, len(texts))
	for _, text := range texts {
		prefixes = append(prefixes, netip.MustParsePrefix(text))
	}
	return prefixes
}

// TestRangesThatAreNotLocalAreRefused checks that dev reports before its start that no program can
// listen in a range, with the remedy.
func TestRangesThatAreNotLocalAreRefused(t *testing.T) {
	o := Options{ServiceCIDR: ranges("127.96.0.0/16"), PodCIDR: ranges("127.64.0.0/16")}
	if err := o.Bindable(); err != nil {
		t.Errorf("loopback: %v", err)
	}
	o.PodCIDR = ranges("127.64.0.0/16", "fd00:7f64:1:2::/64")
	if err := o.Bindable(); err == nil || !strings.Contains(err.Error(), "ip -6 route add local fd00:7f64:1:2::/64 dev lo") {
		t.Errorf("a range without a route: %v", err)
	}
}

// TestRemedies checks the advice for systems on which a range is not local by itself.
func TestRemedies(t *testing.T) {
	for _, c := range []struct{ goos, one, want string }{
		{"linux", "127.96.0.0/16", ""},
		{"windows", "127.96.0.0/16", ""},
		{"linux", "fd00:7f60::/112", "sudo ip -6 route add local fd00:7f60::/112 dev lo"},
		{"darwin", "127.96.0.0/16", "For the range 127.96.0.0/27: for n in {1..31}; do sudo ifconfig lo0 alias 127.96.0.$n; done"},
		{"darwin", "127.96.0.64/28", "For the range 127.96.0.64/28: for n in {65..79}; do sudo ifconfig lo0 alias 127.96.0.$n; done"},
		{"darwin", "fd00:7f60::/112", "sudo ifconfig lo0 inet6 alias fd00:7f60::1/128"},
	} {
		got := remedy(c.goos, netip.MustParsePrefix(c.one))
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s on %s: %q, want %q", c.one, c.goos, got, c.want)
		}
	}
}
