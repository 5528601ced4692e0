package netfilter

import (
	"bytes"
	"testing"

	"github.com/mdlayher/netlink"
)

// FuzzAttributes reads any bytes as attributes. It must agree with the library about bytes that the
// library writes, and an element never has parts that the bytes do not contain.
func FuzzAttributes(f *testing.F) {
	seed := func(attrs ...netlink.Attribute) {
		b, err := netlink.MarshalAttributes(attrs)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	seed()
	seed(netlink.Attribute{Type: 1, Data: []byte("table\x00")}, netlink.Attribute{Type: 2, Data: []byte{1, 2, 3}})
	seed(netlink.Attribute{Type: 1 | netlink.Nested, Data: []byte{8, 0, 1, 0, 10, 0, 0, 1}}, netlink.Attribute{Type: 3, Data: []byte{0, 0, 0, 1}})
	f.Add([]byte{0, 0, 1, 0})
	f.Add([]byte{3, 0, 1, 0})
	f.Add([]byte{0xff, 0xff, 1, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		type attribute struct {
			kind  uint16
			value []byte
		}
		var got []attribute
		for kind, value := range Attributes(b) {
			got = append(got, attribute{kind, value})
		}
		if want, ok := canonical(b); ok {
			if len(want) != len(got) {
				t.Fatalf("%x: %d attributes, the library has %d", b, len(got), len(want))
			}
			for i, a := range want {
				if a.Type&0x3fff != got[i].kind || !bytes.Equal(a.Data, got[i].value) {
					t.Fatalf("%x: attribute %d is %x, in the library %x", b, i, got[i], a)
				}
			}
		}
		m := memberOf(b)
		for _, part := range [][]byte{m.Key, m.End, m.Value, []byte(m.Chain)} {
			if !bytes.Contains(b, part) {
				t.Fatalf("%x: an element with %x", b, part)
			}
		}
		if m.Expires < 0 {
			t.Fatalf("%x: an element that expired %s ago", b, -m.Expires)
		}
	})
}

// canonical returns the attributes in b. It reports whether the library would write them as b. The library
// reads more than it writes: it accepts an attribute that claims to be shorter than its own head.
func canonical(b []byte) ([]netlink.Attribute, bool) {
	attributes, err := netlink.UnmarshalAttributes(b)
	if err != nil {
		return nil, false
	}
	written, err := netlink.MarshalAttributes(attributes)
	return attributes, err == nil && bytes.Equal(written, b)
}
