package spec_test

import (
	"slices"
	"testing"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/spec"
)

func TestResolveFamiliesOnCreate(t *testing.T) {
	type changes []func(*corev1.Service)
	only6, sixFirst := []corev1.IPFamily{v6}, []corev1.IPFamily{v6, v4}
	for _, test := range []struct {
		name    string
		cluster []corev1.IPFamily
		with    changes
		want    []corev1.IPFamily
		policy  corev1.IPFamilyPolicy
		wrong   []string
	}{
		{name: "nothing given", cluster: singleStack, want: singleStack, policy: single},
		{name: "nothing given, dual", cluster: dualStack, want: singleStack, policy: single},
		{name: "nothing given, IPv6 first", cluster: sixFirst, want: only6, policy: single},
		{name: "from clusterIP", cluster: dualStack, with: changes{onIP("fd00::1")}, want: only6, policy: single},
		{name: "from clusterIPs", cluster: dualStack, with: changes{onIP("fd00::1", "10.0.0.1"), policy(prefer)}, want: sixFirst, policy: prefer},
		{name: "prefer, dual", cluster: dualStack, with: changes{policy(prefer)}, want: dualStack, policy: prefer},
		{name: "prefer, single", cluster: singleStack, with: changes{policy(prefer)}, want: singleStack, policy: prefer},
		{name: "prefer, family given", cluster: dualStack, with: changes{policy(prefer), families(v6)}, want: sixFirst, policy: prefer},
		{name: "require, dual", cluster: dualStack, with: changes{policy(require)}, want: dualStack, policy: require},
		{name: "require, single", cluster: singleStack, with: changes{policy(require)}, wrong: []string{"spec.ipFamilyPolicy INVALID"}},
		{name: "two families without policy", cluster: dualStack, with: changes{families(v4, v6)}, wrong: []string{"spec.ipFamilyPolicy REQUIRED"}},
		{name: "two IPs without policy", cluster: dualStack, with: changes{onIP("10.0.0.1", "fd00::1")}, wrong: []string{"spec.ipFamilyPolicy REQUIRED"}},
		{name: "family that is not there", cluster: singleStack, with: changes{families(v6)}, wrong: []string{"spec.ipFamilies[0] INVALID"}},
		{name: "second family that is not there", cluster: singleStack, with: changes{families(v4, v6), policy(prefer)}, wrong: []string{"spec.ipFamilies[1] INVALID"}},
		{name: "IP of a family that is not there", cluster: singleStack, with: changes{onIP("fd00::1")}, wrong: []string{"spec.ipFamilies[0] INVALID"}},
		{name: "headless with selector", cluster: dualStack, with: changes{headless}, want: singleStack, policy: single},
		{name: "headless with selector, prefer", cluster: singleStack, with: changes{headless, policy(prefer)}, want: singleStack, policy: prefer},
		{name: "headless by hand, single", cluster: singleStack, with: changes{headless, byHand}, want: dualStack, policy: require},
		{name: "headless by hand, dual", cluster: sixFirst, with: changes{headless, byHand}, want: sixFirst, policy: require},
		{name: "headless by hand, SingleStack IPv6", cluster: singleStack, with: changes{headless, byHand, policy(single), families(v6)}, want: only6, policy: single},
		{name: "ExternalName", cluster: dualStack, with: changes{ofType(externalName)}},
	} {
		t.Run(test.name, func(t *testing.T) {
			svc := web(test.with...)
			violations := admit(svc, test.cluster, spec.Rules{})
			expect(t, violations, test.wrong...)
			if len(violations) > 0 {
				return
			}
			if s := svc.Spec; !slices.Equal(s.IpFamilies, test.want) || s.IpFamilyPolicy != test.policy {
				t.Errorf("got %v %v, want %v %v", s.IpFamilies, s.IpFamilyPolicy, test.want, test.policy)
			}
		})
	}
}

func TestResolveFamiliesOnUpdate(t *testing.T) {
	type changes []func(*corev1.Service)
	both, one := []string{"10.96.0.10", "fd00::10"}, []string{"10.96.0.10"}
	for _, test := range []struct {
		name       string
		before     []corev1.IPFamily // families of the installation when the service was created
		old, with  changes
		want       []corev1.IPFamily
		policy     corev1.IPFamilyPolicy
		clusterIPs []string
		wrong      []string
	}{
		{name: "manifest again, single", before: dualStack, want: singleStack, policy: single, clusterIPs: one},
		{name: "manifest again, dual", before: dualStack, old: changes{policy(require)}, want: dualStack, policy: require, clusterIPs: both},
		{name: "second family added", before: dualStack, with: changes{policy(require)}, want: dualStack, policy: require, clusterIPs: one},
		{name: "second family added by name", before: dualStack, with: changes{policy(prefer), families(v4, v6)}, want: dualStack, policy: prefer, clusterIPs: one},
		{name: "second address added", before: dualStack, with: changes{policy(prefer), onIP("10.96.0.10", "fd00::99")}, want: dualStack, policy: prefer, clusterIPs: []string{"10.96.0.10", "fd00::99"}},
		{name: "second family without policy", before: dualStack, with: changes{families(v4, v6)}, wrong: []string{"spec.ipFamilies TOO_LONG", "spec.ipFamilyPolicy INVALID"}},
		{name: "back to SingleStack", before: dualStack, old: changes{policy(prefer)}, with: changes{policy(single)}, want: singleStack, policy: single, clusterIPs: one},
		{name: "back to SingleStack, lists kept", before: dualStack, old: changes{policy(require)}, with: changes{policy(single), onIP(both...), families(v4, v6)}, want: singleStack, policy: single, clusterIPs: one},
		{name: "back to SingleStack, lists cut", before: dualStack, old: changes{policy(require)}, with: changes{policy(single), onIP(one...), families(v4)}, want: singleStack, policy: single, clusterIPs: one},
		{name: "second given up without SingleStack", before: dualStack, old: changes{policy(prefer)}, with: changes{onIP("10.96.0.10"), families(v4), policy(prefer)}, wrong: []string{"spec.ipFamilyPolicy INVALID"}},
		{name: "PreferDualStack is not upgraded", before: singleStack, old: changes{policy(prefer)}, with: changes{policy(prefer)}, want: singleStack, policy: prefer, clusterIPs: one},
		{name: "PreferDualStack upgraded by RequireDualStack", before: singleStack, old: changes{policy(prefer)}, with: changes{policy(require)}, want: dualStack, policy: require, clusterIPs: one},
		{name: "first family changed", before: dualStack, with: changes{families(v6)}, wrong: []string{"spec.clusterIPs[0] INVALID", "spec.ipFamilies[0] IMMUTABLE"}},
		{name: "families swapped", before: dualStack, old: changes{policy(require)}, with: changes{families(v6, v4), onIP("fd00::10", "10.96.0.10")}, wrong: []string{
			"spec.clusterIPs[0] IMMUTABLE", "spec.clusterIPs[1] IMMUTABLE", "spec.ipFamilies[0] IMMUTABLE", "spec.ipFamilies[1] IMMUTABLE",
		}},
		{name: "headless may change families", before: dualStack, old: changes{headless}, with: changes{headless, families(v6)}, want: []corev1.IPFamily{v6}, policy: single, clusterIPs: []string{"None"}},
		{name: "from ExternalName", before: dualStack, old: changes{ofType(externalName)}, with: changes{policy(prefer)}, want: dualStack, policy: prefer},
	} {
		t.Run(test.name, func(t *testing.T) {
			old := stored(t, test.before, test.old...)
			svc := web(test.with...)
			violations := admitUpdate(svc, old, dualStack)
			expect(t, violations, test.wrong...)
			if len(violations) > 0 {
				return
			}
			if s := svc.Spec; !slices.Equal(s.IpFamilies, test.want) || s.IpFamilyPolicy != test.policy || !slices.Equal(s.ClusterIps, test.clusterIPs) {
				t.Errorf("got %v %v %v, want %v %v %v", s.IpFamilies, s.IpFamilyPolicy, s.ClusterIps, test.want, test.policy, test.clusterIPs)
			}
		})
	}
}
