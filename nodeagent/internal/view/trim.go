package view

import (
	"unique"

	corev1 "portolan.dev/api/core/v1"

	"portolan.dev/services/object"
)

// Trim removes the fields of an EndpointSlice that no plan reads, and makes endpoints share equal
// strings and conditions, because endpoints take most of an agent's memory. It changes the object
// in place, since a copy would leave twice as much to be collected. The follower therefore calls it
// before it stores the object: an object that the follower has handed over is never changed.
func (v *View) Trim(o object.Object) {
	s, ok := o.(*corev1.EndpointSlice)
	if !ok {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, e := range s.GetEndpoints() {
		e.Hostname, e.Zone, e.DeprecatedTopology = nil, nil, nil
		if e.Conditions != nil {
			e.Conditions = sharedConditions[stateOf(e.Conditions)]
		}
		if e.NodeName != nil {
			e.NodeName = v.internNodeName(e.GetNodeName())
		}
		if ref := e.GetTargetRef(); ref != nil {
			ref.Kind, ref.Namespace = unique.Make(ref.GetKind()).Value(), unique.Make(ref.GetNamespace()).Value()
		}
	}
}

// internNodeName returns the shared copy of a node's name. The caller holds the lock.
func (v *View) internNodeName(name string) *string {
	known := v.nodeNames[name]
	if known == nil {
		known = &name
		v.nodeNames[name] = known
	}
	return known
}

// conditionState is the value of an endpoint's conditions. Each field is -1 if unset, 0 if false, 1
// if true.
type conditionState struct{ ready, serving, terminating int8 }

func stateOf(c *corev1.EndpointConditions) conditionState {
	return conditionState{tristate(c.Ready), tristate(c.Serving), tristate(c.Terminating)}
}

func tristate(b *bool) int8 {
	switch {
	case b == nil:
		return -1
	case *b:
		return 1
	}
	return 0
}

// sharedConditions holds every possible value, so that endpoints share them.
var sharedConditions = func() map[conditionState]*corev1.EndpointConditions {
	yes, no := true, false
	values := map[int8]*bool{-1: nil, 0: &no, 1: &yes}
	all := map[conditionState]*corev1.EndpointConditions{}
	for r, ready := range values {
		for s, serving := range values {
			for t, terminating := range values {
				all[conditionState{r, s, t}] = &corev1.EndpointConditions{Ready: ready, Serving: serving, Terminating: terminating}
			}
		}
	}
	return all
}()
