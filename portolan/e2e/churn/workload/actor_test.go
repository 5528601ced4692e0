package workload

import (
	"fmt"
	"slices"
	"testing"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
)

// TestActorIsRepeatable checks that the same seed generates the same writes.
func TestActorIsRepeatable(t *testing.T) {
	nodes := []string{"n1", "n2"}
	a, b := NewActor(7, 3, nodes), NewActor(7, 3, nodes)
	for range 500 {
		x, y := a.Next(), b.Next()
		if !slices.EqualFunc(x, y, func(x, y Step) bool { return x.Verb == y.Verb && object.Equal(x.Object, y.Object) }) {
			t.Fatalf("%v and then %v", x, y)
		}
	}
}

// TestActorIsConsistent checks that each write can succeed: names are free when objects are
// created, and no two services have the same address or node port at once.
func TestActorIsConsistent(t *testing.T) {
	a := NewActor(7, 3, []string{"n1"})
	there := map[object.Key]object.Object{}
	reused := map[string]int{}
	for range 3000 {
		for _, step := range a.Next() {
			key := object.KeyOf(step.Object)
			if exists := there[key] != nil; exists == (step.Verb == Create) {
				t.Fatalf("%s %s, which exists: %v", step.Verb, key, exists)
			}
			if step.Verb == Delete {
				delete(there, key)
				continue
			}
			there[key] = step.Object
			if svc, ok := step.Object.(*corev1.Service); ok && step.Verb == Create {
				reused[svc.GetSpec().GetClusterIp()]++
			}
		}
		owner := map[string]string{}
		for name, svc := range a.services {
			var has []string
			if ip := svc.GetSpec().GetClusterIp(); ip != "" && ip != "None" {
				has = append(has, ip)
			}
			has = append(has, svc.GetSpec().GetExternalIps()...)
			for _, p := range svc.GetSpec().GetPorts() {
				if p.GetNodePort() > 0 {
					has = append(has, fmt.Sprint(p.GetNodePort()))
				}
			}
			for _, value := range has {
				if other := owner[value]; other != "" {
					t.Fatalf("%s and %s both have %s", other, name, value)
				}
				owner[value] = name
			}
		}
	}
	for _, ip := range a.clusterIPs() {
		if reused[ip] < 10 {
			t.Errorf("%s was used by %d services: addresses hardly come again", ip, reused[ip])
		}
	}
}
