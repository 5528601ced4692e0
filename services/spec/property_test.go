package spec_test

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kinds"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// drawService returns a random service as a client could send it. Most of them are valid.
func drawService(t *rapid.T) *corev1.Service {
	svc := web(ofType(rapid.SampledFrom([]corev1.ServiceType{0, clusterIP, nodePort, loadBalancer, externalName}).Draw(t, "type")))
	s := svc.Spec
	s.Ports = nil
	for i := range rapid.IntRange(0, 4).Draw(t, "ports") {
		s.Ports = append(s.Ports, &corev1.ServicePort{
			Name:       fmt.Sprintf("p%d", i),
			Port:       rapid.SampledFrom([]int32{53, 80, 443, 8080}).Draw(t, "port"),
			Protocol:   rapid.SampledFrom([]corev1.Protocol{0, tcp, udp, sctp}).Draw(t, "protocol"),
			TargetPort: rapid.SampledFrom([]*corev1.IntOrString{nil, number(9376), named("http")}).Draw(t, "target"),
			NodePort:   rapid.SampledFrom([]int32{0, 0, 0, 30007, 30008}).Draw(t, "nodePort"),
		})
	}
	if rapid.Bool().Draw(t, "by hand") {
		byHand(svc)
	}
	switch rapid.IntRange(0, 6).Draw(t, "clusterIP") {
	case 0:
		headless(svc)
	case 1:
		s.ClusterIp = "10.96.0.7"
	case 2:
		onIP("10.96.0.7", "fd00::7")(svc)
	}
	s.IpFamilies = rapid.SampledFrom([][]corev1.IPFamily{nil, nil, {v4}, {v6}, {v4, v6}, {v6, v4}}).Draw(t, "families")
	s.IpFamilyPolicy = rapid.SampledFrom([]corev1.IPFamilyPolicy{0, 0, single, prefer, require}).Draw(t, "policy")
	s.SessionAffinity = corev1.SessionAffinity(rapid.Int32Range(0, 2).Draw(t, "affinity"))
	s.ExternalTrafficPolicy = rapid.SampledFrom([]corev1.TrafficPolicy{0, 0, cluster, local}).Draw(t, "external")
	s.ExternalIps = rapid.SampledFrom([][]string{nil, nil, {"198.51.100.32"}}).Draw(t, "externalIPs")
	if rapid.Bool().Draw(t, "no allocation") && s.Type == loadBalancer {
		s.AllocateLoadBalancerNodePorts = proto.Bool(false)
	}
	return svc
}

func TestDefaultIsIdempotent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		svc := drawService(t)
		kinds.Of(svc).Default(svc)
		again := object.Clone(svc)
		if kinds.Of(again).Default(again); !object.Equal(svc, again) {
			t.Fatalf("once  %v\ntwice %v", svc, again)
		}
	})
}

// TestApplyAgain checks that `apply` is repeatable: an admitted and allocated service stays valid
// and unchanged if the same manifest, or the stored object itself, is sent again.
func TestApplyAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cluster := rapid.SampledFrom([][]corev1.IPFamily{{v4}, {v6}, {v4, v6}, {v6, v4}}).Draw(t, "cluster")
		manifest := drawService(t)
		old := object.Clone(manifest)
		if len(admit(old, cluster, spec.Rules{})) > 0 {
			t.Skip("not valid")
		}
		allocate(old)
		for how, updated := range map[string]*corev1.Service{"the manifest": manifest, "the stored object": object.Clone(old)} {
			if violations := admitUpdate(updated, old, cluster); len(violations) > 0 {
				t.Fatalf("%s again: %s", how, violations)
			}
			updated.Metadata.ResourceVersion = old.Metadata.ResourceVersion
			if !object.Equal(updated, old) {
				t.Fatalf("%s again changes it:\nfrom %v\nto   %v", how, old, updated)
			}
		}
	})
}

// TestUpdateNeverMutatesOld checks that an update shares no memory with the stored object, which
// other goroutines may be reading.
func TestUpdateNeverMutatesOld(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		old, updated := drawService(t), drawService(t)
		if len(admit(old, dualStack, spec.Rules{})) > 0 {
			t.Skip("not valid")
		}
		allocate(old)
		before := object.Clone(old)
		admitUpdate(updated, old, dualStack)
		scribble(updated)
		if !object.Equal(old, before) {
			t.Fatalf("before %v\nafter  %v", before, old)
		}
	})
}

func scribble(svc *corev1.Service) {
	for i := range svc.Spec.ClusterIps {
		svc.Spec.ClusterIps[i] = "scribbled"
	}
	for i := range svc.Spec.IpFamilies {
		svc.Spec.IpFamilies[i] = 9
	}
}

func TestSelectorStringReadsBack(t *testing.T) {
	word := rapid.StringMatching(`[a-z]([-_.a-zA-Z0-9]{0,5}[a-z0-9])?`)
	rapid.Check(t, func(t *rapid.T) {
		var terms []string
		for range rapid.IntRange(0, 4).Draw(t, "terms") {
			key := word.Draw(t, "key")
			values := rapid.SliceOfN(rapid.OneOf(rapid.Just(""), word), 1, 3).Draw(t, "values")
			terms = append(terms, rapid.SampledFrom([]string{
				key, "!" + key, key + "=" + values[0], key + "!=" + values[0], key + " in (" + strings.Join(values, ",") + ")",
				key + " notin (" + strings.Join(values, ", ") + ")",
			}).Draw(t, "term"))
		}
		text := strings.Join(terms, ",")
		selector, err := spec.ParseSelector(text)
		if err != nil {
			t.Fatal(err)
		}
		again, err := spec.ParseSelector(selector.String())
		if err != nil || again.String() != selector.String() {
			t.Fatalf("%q became %q, then %q (%v)", text, selector, again, err)
		}
	})
}

func FuzzParseSelector(f *testing.F) {
	for _, text := range []string{"", "app=web", "x in (foo,,baz),y,z notin ()", "!a", "a!=,b", "a in (", "(((", "a==b", "\x00=\xff", "in in (in)"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		selector, err := spec.ParseSelector(text)
		if err != nil {
			return
		}
		again, err := spec.ParseSelector(selector.String())
		if err != nil {
			t.Fatalf("%q was read as %q, which is refused: %v", text, selector, err)
		}
		labels := map[string]string{"app": "web", "x": "foo", "a": ""}
		if selector.Matches(labels) != again.Matches(labels) {
			t.Fatalf("%q and %q do not match the same", text, selector)
		}
	})
}
