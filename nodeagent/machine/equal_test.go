package machine

import (
	"net"
	"net/netip"
	"reflect"
	"testing"
)

// TestInterfacesCompareEveryField changes one field after the other. If the comparison left a field out, the agent would
// go on to answer neighbours by the former state of an interface, such as its former hardware address.
func TestInterfacesCompareEveryField(t *testing.T) {
	other := Interface{Name: "eth0", Index: 2, Hardware: net.HardwareAddr{2, 0, 0, 0, 0, 1}, Prefixes: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/24")}}
	from := reflect.ValueOf(other)
	for i := range from.NumField() {
		field := from.Type().Field(i).Name
		if from.Field(i).IsZero() {
			t.Errorf("%s has no value in this test", field)
		}
		var one Interface
		reflect.ValueOf(&one).Elem().Field(i).Set(from.Field(i))
		if one.Equal(Interface{}) || !one.Equal(one) {
			t.Errorf("a difference in %s is not noticed", field)
		}
	}
}
