package pool

import (
	"net/netip"
	"strings"
	"testing"
)

// FuzzParse parses any range. Its text means the same range. Addresses agree with net/netip: they
// lie in the prefix and come back from their text. All values differ.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"10.96.0.0/16", "fd00::/108", "10.0.0.1/32", "10.0.0.0/31", "0.0.0.0/0", "::/0", "::ffff:10.0.0.0/104", "10.0.0.7/8", "30000-32767", "30000+2767", "80", "0", "65535+1",
		"+1-2", "1--2", "", "/", "10.0.0.0/33", "fe80::%eth0/64",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse(s.String())
		if err != nil || again != s {
			t.Fatalf("%q became %q, and then %v, %v", text, s, again, err)
		}
		if s.Size() == 0 || s.Band() > s.Size() {
			t.Fatalf("%q has %d values, %d of them at its beginning", text, s.Size(), s.Band())
		}
		seen := map[string]bool{}
		for _, i := range []uint64{0, 1, s.Size() / 2, s.Size() - 2, s.Size() - 1} {
			if i >= s.Size() || i == 1 && s.Size() == 1 {
				continue
			}
			value := s.Value(i).String()
			if s.IsAddresses() {
				addr, err := netip.ParseAddr(value)
				if err != nil || !s.Prefix().Contains(addr) {
					t.Fatalf("%q has %s, %v", text, value, err)
				}
			} else if strings.ContainsAny(value, ".:") || value == "0" {
				t.Fatalf("%q has the port %s", text, value)
			}
			if at, ok := s.Index(s.Value(i)); !ok || at != i {
				t.Fatalf("%q: value %d, %s, is value %d, %v", text, i, value, at, ok)
			}
			seen[value] = true
		}
		if uint64(len(seen)) < min(2, s.Size()) {
			t.Fatalf("%q has the same value twice", text)
		}
	})
}
