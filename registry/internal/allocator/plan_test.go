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
