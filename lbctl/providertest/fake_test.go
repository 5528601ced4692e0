package providertest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"

	corev1 "portolan.dev/api/core/v1"
	loadbalancerv1 "portolan.dev/api/loadbalancer/v1"
	"portolan.dev/services/kit/kittest"
)

// TestTheFakeKeepsTheContract runs the suite against a fake, also one that says pending every other
// time, and can do all.
func TestTheFakeKeepsTheContract(t *testing.T) {
	for _, slow := range []bool{false, true} {
		fake := NewFake()
		if slow {
			fake.Can.Protocols = []corev1.Protocol{corev1.Protocol_PROTOCOL_TCP, corev1.Protocol_PROTOCOL_UDP, corev1.Protocol_PROTOCOL_SCTP}
			fake.Can.MixedProtocols, fake.Can.Internal = true, true
			var calls atomic.Int64
			fake.Fail(func(_ context.Context, call, _ string) (bool, error) {
				return call != "Update" && calls.Add(1)%2 == 1, nil
			}, nil)
		}
		conn := kittest.Conn(t, func(s grpc.ServiceRegistrar) { loadbalancerv1.RegisterLoadBalancerProviderServiceServer(s, fake) })
		t.Run(fmt.Sprintf("slow %v", slow), func(t *testing.T) {
			Run(t, Subject{Client: loadbalancerv1.NewLoadBalancerProviderServiceClient(conn), Left: func() ([]string, error) {
				var all []string
				for _, b := range fake.Balancers() {
					all = append(all, b.IP)
				}
				return all, nil
			}})
		})
	}
}
