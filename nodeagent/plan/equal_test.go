package plan

import (
	"net/netip"
	"reflect"
	"testing"
	"time"

	"portolan.dev/services/object"
)

// TestEqualComparesEveryField changes one field after the other. A field that the comparison leaves out would never
// reach the kernel of a live service.
func TestEqualComparesEveryField(t *testing.T) {
	other := VirtualServer{
		Key: Key{Frontend: Frontend{Addr: netip.MustParseAddrPort("192.0.2.1:80"), Protocol: 1}, Audience: Internal},
		Attributes: Attributes{
			Service: object.Name{Namespace: "default", Name: "web"}, PortName: "http", Exposure: 1, Scheduler: 1, Flags: 1, Affinity: time.Hour,
			Drain: time.Minute, WithoutBackends: 1, Masquerade: 1, Restricted: true, Allowed: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")},
		},
		Reals: []RealServer{{Addr: netip.MustParseAddrPort("198.51.100.1:8080"), Weight: 1}},
	}
	eachField(t, reflect.ValueOf(&other).Elem(), nil, func(path []int, name string) {
		var one VirtualServer
		if !one.Equal(&VirtualServer{}) {
			t.Fatal("two empty virtual servers differ")
		}
		reflect.ValueOf(&one).Elem().FieldByIndex(path).Set(reflect.ValueOf(&other).Elem().FieldByIndex(path))
		if one.Equal(&VirtualServer{}) {
			t.Errorf("a difference in %s is not noticed", name)
		}
	})
}

// TestFactsAndSourcesCompareEveryField changes one field of the node's facts and sources after the other. If the
// comparison left a field out, no plan and no rule would follow a change of it.
func TestFactsAndSourcesCompareEveryField(t *testing.T) {
	facts := Facts{
		Node: "n1", Zone: "a", NodePorts: []netip.Addr{netip.MustParseAddr("192.0.2.1")}, Scheduler: 1, Drain: time.Minute, MasqueradeAll: true,
	}
	eachField(t, reflect.ValueOf(&facts).Elem(), nil, func(path []int, name string) {
		var one Facts
		reflect.ValueOf(&one).Elem().FieldByIndex(path).Set(reflect.ValueOf(&facts).Elem().FieldByIndex(path))
		if one.Equal(&Facts{}) || !one.Equal(&one) {
			t.Errorf("a difference of the facts in %s is not noticed", name)
		}
	})
	some := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	sources := Sources{Pods: some, Node: some}
	eachField(t, reflect.ValueOf(&sources).Elem(), nil, func(path []int, name string) {
		var one Sources
		reflect.ValueOf(&one).Elem().FieldByIndex(path).Set(reflect.ValueOf(&sources).Elem().FieldByIndex(path))
		if one.Equal(&Sources{}) || !one.Equal(&one) {
			t.Errorf("a difference of the sources in %s is not noticed", name)
		}
	})
}

// eachField calls check for each field of a struct, and for the fields of embedded ones. It fails the test if a field
// has its zero value, because a new field needs a value here.
func eachField(t *testing.T, v reflect.Value, path []int, check func(path []int, name string)) {
	t.Helper()
	for i := range v.NumField() {
		field, at := v.Type().Field(i), append(path[:len(path):len(path)], i)
		switch {
		case field.Anonymous:
			eachField(t, v.Field(i), at, check)
		case v.Field(i).IsZero():
			t.Errorf("%s.%s has no value in this test", v.Type(), field.Name)
		default:
			check(at, field.Name)
		}
	}
}
