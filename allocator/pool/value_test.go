package pool

import "testing"

func TestTextThatIsNoPortIsRefused(t *testing.T) {
	for _, text := range []string{"", "x", "0", "-1", "80x", "65536", "4294967376"} {
		if v, err := ParsePort(text); err == nil {
			t.Errorf("ParsePort(%q) = %v, want an error", text, v)
		}
	}
	for _, text := range []string{"1", "65535"} {
		if v, err := ParsePort(text); err != nil || v.String() != text || v.IsAddr() {
			t.Errorf("ParsePort(%q) = %v, %v", text, v, err)
		}
	}
}

func TestTextThatIsNoAddressIsRefused(t *testing.T) {
	for _, text := range []string{"", "x", "80", "10.0.0", "10.0.0.256", "10.0.0.0/8", "fe80::1%eth0"} {
		if v, err := ParseAddr(text); err == nil {
			t.Errorf("ParseAddr(%q) = %v, want an error", text, v)
		}
	}
	for text, want := range map[string]string{"10.0.0.1": "10.0.0.1", "fd00::1": "fd00::1", "::ffff:10.0.0.1": "10.0.0.1"} {
		if v, err := ParseAddr(text); err != nil || v.String() != want || !v.IsAddr() {
			t.Errorf("ParseAddr(%q) = %v, %v; want %s", text, v, err, want)
		}
	}
}

// TestKeysSortAsValuesCount reads each key back, and checks the order in which a store returns
// values by their keys.
func TestKeysSortAsValuesCount(t *testing.T) {
	for _, sorted := range [][]string{
		{"1", "80", "255", "256", "65535"},
		{"9.255.255.255", "10.0.0.1", "10.0.1.0", "192.0.2.1"},
		{"fd00::1", "fd00::ff", "fd00::100", "fd00:0:0:1::"},
	} {
		before := ""
		for _, text := range sorted {
			value, err := ParsePort(text)
			if err != nil {
				value, err = ParseAddr(text)
			}
			if err != nil {
				t.Fatal(err)
			}
			key := value.Key()
			if back, err := ValueOfKey(key); err != nil || back != value {
				t.Errorf("the key of %s is read as %v, %v", text, back, err)
			}
			if string(key) <= before {
				t.Errorf("the key of %s is not above that of the value before it", text)
			}
			before = string(key)
		}
	}
	for _, key := range []string{"", "1", "12345", "12345678901234567"} {
		if v, err := ValueOfKey([]byte(key)); err == nil {
			t.Errorf("a key of %d bytes is read as %v", len(key), v)
		}
	}
}
