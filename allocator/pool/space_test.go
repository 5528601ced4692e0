package pool

import (
	"testing"
)

func TestBandsAndUsableValues(t *testing.T) {
	for _, c := range []struct {
		text              string
		size, band        uint64
		first, upper, end string
	}{
		{"10.0.0.0/28", 14, 0, "10.0.0.1", "10.0.0.1", "10.0.0.14"},
		{"10.0.0.0/27", 30, 16, "10.0.0.1", "10.0.0.17", "10.0.0.30"},
		{"10.0.0.0/24", 254, 16, "10.0.0.1", "10.0.0.17", "10.0.0.254"},
		{"10.0.0.0/20", 4094, 256, "10.0.0.1", "10.0.1.1", "10.0.15.254"},
		{"10.96.0.0/16", 65534, 256, "10.96.0.1", "10.96.1.1", "10.96.255.254"},
		{"fd00::/112", 65535, 256, "fd00::1", "fd00::101", "fd00::ffff"},
		{"fd00::/64", 1<<64 - 1, 256, "fd00::1", "fd00::101", "fd00::ffff:ffff:ffff:ffff"},
		{"203.0.113.7/32", 1, 0, "203.0.113.7", "203.0.113.7", "203.0.113.7"},
		{"203.0.113.6/31", 2, 0, "203.0.113.6", "203.0.113.6", "203.0.113.7"},
		{"30000-32767", 2768, 86, "30000", "30086", "32767"},
		{"30000-30015", 16, 0, "30000", "30000", "30015"},
		{"20000-24095", 4096, 128, "20000", "20128", "24095"},
		{"1-65535", 65535, 128, "1", "129", "65535"},
	} {
		s, err := Parse(c.text)
		if err != nil {
			t.Errorf("Parse(%q): %v", c.text, err)
			continue
		}
		got := []any{s.Size(), s.Band(), s.Value(0).String(), s.Value(s.Band()).String(), s.Value(s.Size() - 1).String(), s.String()}
		want := []any{c.size, c.band, c.first, c.upper, c.end, c.text}
		for i := range got {
			if got[i] != want[i] {
				t.Errorf("%s: got %v, want %v", c.text, got, want)
				break
			}
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, text := range []string{"", "x", "10.0.0.1/16", "10.0.0.0/33", "fd00::/48", "0-10", "20-10", "1-65536", "65535+1", "1-", "-", "a-b"} {
		if s, err := Parse(text); err == nil {
			t.Errorf("Parse(%q) = %v, want an error", text, s)
		}
	}
	if s, err := Parse("30000+2767"); err != nil || s.String() != "30000-32767" {
		t.Errorf("Parse(30000+2767) = %v, %v", s, err)
	}
}

func TestValuesOutsideHaveNoIndex(t *testing.T) {
	addrs, _ := Parse("10.96.0.0/24")
	six, _ := Parse("fd00:0:0:1::/64")
	ports, _ := Parse("30000-30100")
	for _, c := range []struct {
		space Space
		value string
	}{
		{addrs, "10.96.0.0"},
		{addrs, "10.96.0.255"},
		{addrs, "10.96.1.1"},
		{addrs, "fd00::1"},
		{six, "fd00:0:0:1::"},
		{six, "fd00:0:0:2::1"},
		{six, "10.96.0.1"},
	} {
		v, err := ParseAddr(c.value)
		if err != nil {
			t.Fatal(err)
		}
		if i, ok := c.space.Index(v); ok {
			t.Errorf("%v.Index(%s) = %d, want none", c.space, c.value, i)
		}
	}
	for _, p := range []uint16{29999, 30101, 1} {
		if _, ok := ports.Index(PortValue(p)); ok {
			t.Errorf("%v has %d", ports, p)
		}
	}
	if _, err := ParseAddr("fe80::1%eth0"); err == nil {
		t.Error("an address with a zone was read")
	}
}

func TestContainsAndOverlaps(t *testing.T) {
	for _, c := range []struct {
		a, b               string
		contains, overlaps bool
	}{
		{"10.0.0.0/16", "10.0.4.0/24", true, true},
		{"10.0.4.0/24", "10.0.0.0/16", false, true},
		{"10.0.4.0/24", "10.0.5.0/24", false, false},
		{"30000-32767", "30000-30010", true, true},
		{"30000-32767", "32767-32768", false, true},
		{"30000-32767", "32768-32769", false, false},
		{"10.0.0.0/16", "30000-32767", false, false},
		{"fd00::/64", "fd00::/112", true, true},
	} {
		a, _ := Parse(c.a)
		b, _ := Parse(c.b)
		if a.Contains(b) != c.contains || a.Overlaps(b) != c.overlaps || b.Overlaps(a) != c.overlaps {
			t.Errorf("%s, %s: contains %v overlaps %v, want %v %v", a, b, a.Contains(b), a.Overlaps(b), c.contains, c.overlaps)
		}
	}
}
