package announce

import (
	"net/netip"
	"reflect"
	"testing"
)

// TestStatesCompareEveryField changes one field after the other. If the comparison left a field out, a change of it
// would not be considered, and addresses would stay on nodes that may not announce them.
func TestStatesCompareEveryField(t *testing.T) {
	other := State{
		Ready: true, Draining: true, Restarting: true, Stays: true, Subnets: []netip.Prefix{subnet},
		Served: []netip.Addr{subnet.Addr()}, Kept: []netip.Addr{subnet.Addr()}, AwaitsProxy: true,
	}
	from := reflect.ValueOf(other)
	for i := range from.NumField() {
		field := from.Type().Field(i).Name
		if from.Field(i).IsZero() {
			t.Errorf("%s has no value in this test", field)
		}
		var one State
		reflect.ValueOf(&one).Elem().Field(i).Set(from.Field(i))
		if one.equal(State{}) || !one.equal(one) {
			t.Errorf("a difference in %s is not noticed", field)
		}
	}
}
