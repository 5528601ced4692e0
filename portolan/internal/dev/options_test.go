package dev

import (
	"net/netip"
	"strings"
	"testing"
)

// TestOnlyThisMachineReachesDev: unless it is told to be insecure, and even then never by every address.
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
		"real virtual IPs":   {func(o *Options) { o.ServiceCIDR, o.Insecure = netip.MustParsePrefix("10.96.0.0/16"), true }, "--service-cidr: 10.96.0.0 is not a loopback address"},
		"real pod addresses": {func(o *Options) { o.PodCIDR, o.Insecure = netip.MustParsePrefix("10.64.0.0/16"), true }, "--pod-cidr: 10.64.0.0 is not a loopback address"},
	} {
		o := Options{
			Bind: netip.MustParseAddr("127.0.0.1"), DNSAddr: netip.MustParseAddrPort("127.0.0.1:7053"),
			ServiceCIDR: netip.MustParsePrefix("127.96.0.0/16"), PodCIDR: netip.MustParsePrefix("127.64.0.0/16"),
		}
		c.change(&o)
		err := o.Validate()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
