package allocator_test

import (
	"fmt"
	"slices"
	"testing"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/registry/internal/allocator"
)

// TestProtocolsOfOnePortShareItsNodePort checks that two protocols of a port number have one node
// port, and that ports with different numbers have different ones.
func TestProtocolsOfOnePortShareItsNodePort(t *testing.T) {
	const (
		tcp = corev1.Protocol_PROTOCOL_TCP
		udp = corev1.Protocol_PROTOCOL_UDP
	)
	port := func(protocol corev1.Protocol, number, nodePort int32) *corev1.ServicePort {
		return &corev1.ServicePort{Name: fmt.Sprint(protocol, number), Protocol: protocol, Port: number, NodePort: nodePort}
	}
	for name, c := range map[string]struct {
		ports []*corev1.ServicePort
		asked []string // node ports of the claims; "": any
		want  []int32  // resulting node ports if the allocator returns 31000, 31001, …
	}{
		"none asked for":            {[]*corev1.ServicePort{port(tcp, 53, 0), port(udp, 53, 0)}, []string{""}, []int32{31000, 31000}},
		"different numbers":         {[]*corev1.ServicePort{port(tcp, 80, 0), port(udp, 53, 0)}, []string{"", ""}, []int32{31000, 31001}},
		"one asked for":             {[]*corev1.ServicePort{port(tcp, 53, 30053), port(udp, 53, 0)}, []string{"30053"}, []int32{30053, 30053}},
		"the later one asked for":   {[]*corev1.ServicePort{port(udp, 53, 0), port(tcp, 53, 30053)}, []string{"30053"}, []int32{30053, 30053}},
		"another number asked for":  {[]*corev1.ServicePort{port(tcp, 80, 30080), port(udp, 53, 0)}, []string{"30080", ""}, []int32{30080, 31000}},
		"both asked for one":        {[]*corev1.ServicePort{port(tcp, 53, 30053), port(udp, 53, 30053)}, []string{"30053"}, []int32{30053, 30053}},
		"both asked for others":     {[]*corev1.ServicePort{port(tcp, 53, 30053), port(udp, 53, 30054)}, []string{"30053", "30054"}, []int32{30053, 30054}},
		"taken for the other":       {[]*corev1.ServicePort{port(tcp, 53, 30053), port(udp, 80, 30053), port(udp, 53, 0)}, []string{"30053", ""}, []int32{30053, 30053, 31000}},
		"the same protocol is none": {[]*corev1.ServicePort{port(tcp, 53, 30053), port(tcp, 54, 0)}, []string{"30053", ""}, []int32{30053, 31000}},
	} {
		t.Run(name, func(t *testing.T) {
			svc := nodePortService()
			svc.Spec.ClusterIps, svc.Spec.IpFamilies, svc.Spec.Ports = nil, nil, c.ports
			plan := allocator.NewPlan(svc, nil)
			var asked, given []string
			next := 31000
			for _, claim := range plan.Claims {
				asked = append(asked, claim.GetValue())
				value := claim.GetValue()
				if value == "" {
					value = fmt.Sprint(next)
					next++
				}
				given = append(given, value)
			}
			if err := plan.Assign(given); err != nil {
				t.Fatal(err)
			}
			var got []int32
			for _, p := range svc.GetSpec().GetPorts() {
				got = append(got, p.GetNodePort())
			}
			if !slices.Equal(asked, c.asked) || !slices.Equal(got, c.want) {
				t.Errorf("claims %q, node ports %v; want %q, %v", asked, got, c.asked, c.want)
			}
		})
	}
}

// TestClaimsNameTheProtocols checks for which protocols a new version of a service claims its node
// ports, and which values it releases.
func TestClaimsNameTheProtocols(t *testing.T) {
	const tcp, udp = corev1.Protocol_PROTOCOL_TCP, corev1.Protocol_PROTOCOL_UDP
	port := func(protocol corev1.Protocol, number, nodePort int32) *corev1.ServicePort {
		return &corev1.ServicePort{Name: fmt.Sprint(protocol, number), Protocol: protocol, Port: number, NodePort: nodePort}
	}
	version := func(ports ...*corev1.ServicePort) *corev1.Service {
		svc := nodePortService()
		svc.Spec.ClusterIps, svc.Spec.IpFamilies, svc.Spec.Ports = nil, nil, ports
		return svc
	}
	for name, c := range map[string]struct {
		old, svc *corev1.Service
		claims   []string // value and protocols
		released []string
	}{
		"a new service":         {nil, version(port(tcp, 80, 0), port(udp, 53, 30053), port(tcp, 53, 0)), []string{"30053 [PROTOCOL_UDP PROTOCOL_TCP]", " [PROTOCOL_TCP]"}, nil},
		"two protocols, any":    {nil, version(port(tcp, 53, 0), port(udp, 53, 0)), []string{" [PROTOCOL_TCP PROTOCOL_UDP]"}, nil},
		"nothing new":           {version(port(tcp, 53, 30053)), version(port(tcp, 53, 30053)), nil, nil},
		"another protocol":      {version(port(tcp, 53, 30053)), version(port(tcp, 53, 30053), port(udp, 53, 30053)), []string{"30053 [PROTOCOL_UDP]"}, nil},
		"a shared number":       {version(port(tcp, 53, 30053)), version(port(tcp, 53, 30053), port(udp, 53, 0)), []string{"30053 [PROTOCOL_UDP]"}, nil},
		"one protocol less":     {version(port(tcp, 53, 30053), port(udp, 53, 30053)), version(port(tcp, 53, 30053)), nil, []string{"30053/UDP"}},
		"the other protocol":    {version(port(tcp, 53, 30053)), version(port(udp, 53, 30053)), []string{"30053 [PROTOCOL_UDP]"}, []string{"30053/TCP"}},
		"another number":        {version(port(tcp, 53, 30053)), version(port(tcp, 53, 30054)), []string{"30054 [PROTOCOL_TCP]"}, []string{"30053", "30053/TCP"}},
		"explicit before any":   {nil, version(port(tcp, 80, 0), port(tcp, 81, 30081)), []string{"30081 [PROTOCOL_TCP]", " [PROTOCOL_TCP]"}, nil},
		"without any node port": {version(port(tcp, 53, 30053)), nil, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if c.svc == nil {
				c.svc = version(port(tcp, 53, 30053))
				c.svc.Spec.Type = corev1.ServiceType_SERVICE_TYPE_CLUSTER_IP
				c.svc.Spec.Ports[0].NodePort = 0
				c.released = []string{"30053", "30053/TCP"}
			}
			plan := allocator.NewPlan(c.svc, c.old)
			var claims []string
			for _, claim := range plan.Claims {
				claims = append(claims, fmt.Sprint(claim.GetValue(), " ", claim.GetProtocols()))
			}
			if !slices.Equal(claims, c.claims) || !slices.Equal(plan.Released, c.released) {
				t.Errorf("claims %q, released %q; want %q, %q", claims, plan.Released, c.claims, c.released)
			}
		})
	}
}

// TestAnotherPlanBeginsAnew checks that a plan for a second attempt finds the service as it was before
// the first attempt, and that it has new slots. The slots of the first attempt may be released later, and
// that must not release the values of the second attempt.
func TestAnotherPlanBeginsAnew(t *testing.T) {
	svc := nodePortService()
	svc.Spec.Ports = append(svc.Spec.Ports, &corev1.ServicePort{Port: 81, NodePort: 30007})
	before := svc.CloneVT()
	first := allocator.NewPlan(svc, nil)
	if err := first.Assign([]string{"10.96.0.1", "30000", "30007"}[:len(first.Claims)]); err != nil {
		t.Fatal(err)
	}
	first.Undo()
	second := first.Again()
	values := func(p *allocator.Plan) (asked []string) {
		for _, claim := range p.Claims {
			asked = append(asked, claim.GetValue())
		}
		return asked
	}
	if !slices.Equal(values(second), values(first)) {
		t.Errorf("the second plan asks for %q, the first for %q", values(second), values(first))
	}
	for _, slot := range second.Slots() {
		if slices.Contains(first.Slots(), slot) {
			t.Errorf("both plans have the slot %s", slot)
		}
	}
	second.Undo()
	if !svc.EqualVT(before) {
		t.Errorf("the service is %v, before it was %v", svc, before)
	}
}
