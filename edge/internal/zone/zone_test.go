package zone

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestWeights(t *testing.T) {
	a, down, b, unknown := Endpoint{"a", true}, Endpoint{"a", false}, Endpoint{"b", true}, Endpoint{"", true}
	for name, tc := range map[string]struct {
		endpoints []Endpoint
		own       string
		cross     bool
		want      []uint32
	}{
		"across zones":                    {[]Endpoint{a, b, unknown}, "a", true, []uint32{1, 1, 1}},
		"own zone only":                   {[]Endpoint{a, b, unknown, a}, "a", false, []uint32{1, 0, 0, 1}},
		"own zone, one of two usable":     {[]Endpoint{a, down, b}, "a", false, []uint32{1, 1, 0}},
		"nothing usable in the own zone":  {[]Endpoint{down, b, unknown}, "a", false, []uint32{1, 1, 1}},
		"nothing in the own zone":         {[]Endpoint{b, unknown}, "a", false, []uint32{1, 1}},
		"the edge's zone is not known":    {[]Endpoint{a, b, unknown}, "", false, []uint32{1, 1, 1}},
		"no endpoints":                    {nil, "a", false, []uint32{}},
		"unusable endpoints of elsewhere": {[]Endpoint{a, {"b", false}}, "a", false, []uint32{1, 0}},
	} {
		if got := Weights(tc.endpoints, tc.own, tc.cross); !slices.Equal(got, tc.want) {
			t.Errorf("%s: weights %v, want %v", name, got, tc.want)
		}
	}
}

// TestZonesCauseNoOutage checks that a service with usable endpoints always has one that gets new
// connections, and that no connection leaves the zone while an endpoint in it can be used.
func TestZonesCauseNoOutage(t *testing.T) {
	zones := rapid.SampledFrom([]string{"", "a", "b", "c"})
	rapid.Check(t, func(t *rapid.T) {
		endpoints := rapid.SliceOf(rapid.Custom(func(t *rapid.T) Endpoint {
			return Endpoint{zones.Draw(t, "zone"), rapid.Bool().Draw(t, "usable")}
		})).Draw(t, "endpoints")
		own, cross := zones.Draw(t, "own"), rapid.Bool().Draw(t, "cross")
		var usable, served, inZone, left bool
		for i, weight := range Weights(endpoints, own, cross) {
			e := endpoints[i]
			usable = usable || e.Usable
			served = served || e.Usable && weight > 0
			inZone = inZone || e.Usable && e.Zone == own
			left = left || e.Zone != own && weight > 0
		}
		if usable != served {
			t.Fatalf("usable endpoints %t, served %t", usable, served)
		}
		if !cross && own != "" && inZone && left {
			t.Fatal("connections leave the zone")
		}
	})
}
