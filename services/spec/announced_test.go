package spec_test

import (
	"fmt"
	"maps"
	"testing"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// TestAnnouncersAreReadFromTheCondition checks that Announcers returns the nodes in the message, also if
// the message was too long for a condition.
func TestAnnouncersAreReadFromTheCondition(t *testing.T) {
	read := func(all []spec.Announced) map[string]string {
		return spec.Announcers(&corev1.Service{Status: &corev1.ServiceStatus{Conditions: []*corev1.Condition{
			{Type: object.ConditionAnnounced, Message: spec.ShortenMessage(spec.AnnouncedMessage(all))},
		}}})
	}
	for name, test := range map[string]struct {
		all  []spec.Announced
		want map[string]string
	}{
		"none": {nil, map[string]string{}},
		"one":  {[]spec.Announced{{Address: "203.0.113.7", Node: "n1"}}, map[string]string{"203.0.113.7": "n1"}},
		"one of two": {
			[]spec.Announced{{Address: "203.0.113.7", Why: "no node may announce the address: n1: it drains; n2: it is not ready"}, {Address: "2001:db8::7", Node: "n2"}},
			map[string]string{"2001:db8::7": "n2"},
		},
	} {
		if got := read(test.all); !maps.Equal(got, test.want) {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
	var many []spec.Announced
	for i := range 200 {
		many = append(many, spec.Announced{Address: fmt.Sprintf("203.0.113.%d", i+1), Node: "n1"})
	}
	got := read(many)
	if len(got) < 20 || len(got) >= len(many) {
		t.Errorf("%d nodes of a shortened message", len(got))
	}
	for i := range len(got) {
		if got[many[i].Address] != "n1" {
			t.Errorf("%s is lost, though it is among the first %d", many[i].Address, len(got))
		}
	}
	if got := spec.Announcers(&corev1.Service{}); len(got) > 0 {
		t.Errorf("a service without the condition has %v", got)
	}
}
