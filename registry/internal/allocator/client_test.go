package allocator_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	allocatorv1 "portolan.dev/api/allocator/v1"
	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/registry/internal/allocator"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/kittest"
)

// scripted is an allocator that returns the responses that the test sets.
type scripted struct {
	allocatorv1.UnimplementedAllocatorServiceServer
	results []*allocatorv1.ClaimSetResult
}

func (s *scripted) Allocate(context.Context, *allocatorv1.AllocateRequest) (*allocatorv1.AllocateResponse, error) {
	return &allocatorv1.AllocateResponse{Results: s.results}, nil
}

// clientOf returns a client of an allocator.
func clientOf(t *testing.T, impl allocatorv1.AllocatorServiceServer) *allocator.Client {
	t.Helper()
	conn := kittest.Conn(t, func(server grpc.ServiceRegistrar) { allocatorv1.RegisterAllocatorServiceServer(server, impl) })
	host := kittest.Host(t, nil, "")
	client := allocator.NewClient(allocatorv1.NewAllocatorServiceClient(conn), host.Log, host.Metrics)
	t.Cleanup(client.Close)
	return client
}

// nodePortService returns a service that needs an address and a node port.
func nodePortService() *corev1.Service {
	return &corev1.Service{
		Metadata: &corev1.ObjectMeta{Namespace: "default", Name: "web", Uid: "u1"},
		Spec: &corev1.ServiceSpec{
			Type: corev1.ServiceType_SERVICE_TYPE_NODE_PORT, IpFamilies: []corev1.IPFamily{corev1.IPFamily_IP_FAMILY_IPV4},
			Ports: []*corev1.ServicePort{{Port: 80}},
		},
	}
}

func notInUse(string) bool { return false }

// TestOddAnswersAreRefused checks that no service is stored with fewer values than it needs, for
// any response of the allocator.
func TestOddAnswersAreRefused(t *testing.T) {
	values := func(values ...string) []*allocatorv1.ClaimSetResult {
		return []*allocatorv1.ClaimSetResult{{Values: values}}
	}
	for name, c := range map[string]struct {
		results []*allocatorv1.ClaimSetResult
		code    codes.Code
	}{
		"as it should be":    {values("10.96.0.1", "30000"), codes.OK},
		"no result":          {nil, codes.Internal},
		"too many results":   {append(values("10.96.0.1", "30000"), values("10.96.0.2", "30001")...), codes.Internal},
		"no values":          {values(), codes.Internal},
		"too few values":     {values("10.96.0.1"), codes.Internal},
		"too many values":    {values("10.96.0.1", "30000", "30001"), codes.Internal},
		"an empty address":   {values("", "30000"), codes.Internal},
		"an empty node port": {values("10.96.0.1", ""), codes.Internal},
		"port 0":             {values("10.96.0.1", "0"), codes.Internal},
		"a port too large":   {values("10.96.0.1", "65536"), codes.Internal},
		"a port of letters":  {values("10.96.0.1", "http"), codes.Internal},
	} {
		t.Run(name, func(t *testing.T) {
			client := clientOf(t, &scripted{results: c.results})
			for _, dryRun := range []bool{false, true} {
				svc := nodePortService()
				err := client.Allocate(t.Context(), allocator.NewPlan(svc, nil), allocator.Terms{DryRun: dryRun, InUse: notInUse})
				if apierr.Code(err) != c.code {
					t.Errorf("dry run %v: %v, want %s", dryRun, err, c.code)
				}
				got := fmt.Sprint(svc.GetSpec().GetClusterIp(), " ", svc.GetSpec().GetClusterIps(), " ", svc.GetSpec().GetPorts()[0].GetNodePort())
				if want := "10.96.0.1 [10.96.0.1] 30000"; c.code == codes.OK && got != want {
					t.Errorf("dry run %v: the service has %s, want %s", dryRun, got, want)
				}
			}
		})
	}
}

// TestFailuresNameTheirFields checks that an error names the field with the refused value.
func TestFailuresNameTheirFields(t *testing.T) {
	const (
		full       = allocatorv1.FailureReason_FAILURE_REASON_FULL
		allocated  = allocatorv1.FailureReason_FAILURE_REASON_ALLOCATED
		notInRange = allocatorv1.FailureReason_FAILURE_REASON_NOT_IN_RANGE
	)
	asked := nodePortService()
	asked.Spec.ClusterIps = []string{"10.96.0.7"}
	asked.Spec.Ports[0].NodePort = 30007
	for name, c := range map[string]struct {
		svc     *corev1.Service
		reasons []allocatorv1.FailureReason // reasons to refuse the address and the node port; 0: not refused
		code    codes.Code
		fields  []string
	}{
		"both that were asked for": {
			asked, []allocatorv1.FailureReason{allocated, notInRange}, codes.InvalidArgument, []string{"spec.clusterIPs[0]", "spec.ports[0].nodePort"},
		},
		"one that was asked for": {asked, []allocatorv1.FailureReason{0, allocated}, codes.InvalidArgument, []string{"spec.ports[0].nodePort"}},
		"nothing is left":        {nodePortService(), []allocatorv1.FailureReason{0, full}, codes.ResourceExhausted, nil},
		"what nobody asked for":  {nodePortService(), []allocatorv1.FailureReason{allocated, 0}, codes.Internal, nil},
	} {
		t.Run(name, func(t *testing.T) {
			plan, result := allocator.NewPlan(c.svc.CloneVT(), nil), &allocatorv1.ClaimSetResult{}
			for i, slot := range plan.Slots() {
				if c.reasons[i] != 0 {
					result.Failures = append(result.Failures, &allocatorv1.ClaimFailure{Slot: slot, Reason: c.reasons[i], Message: "the reason"})
				}
			}
			err := clientOf(t, &scripted{results: []*allocatorv1.ClaimSetResult{result}}).Allocate(t.Context(), plan, allocator.Terms{InUse: notInUse})
			var fields []string
			for _, violation := range apierr.ViolationsOf(err) {
				fields = append(fields, violation.Field)
			}
			if apierr.Code(err) != c.code || !slices.Equal(fields, c.fields) {
				t.Errorf("%v with the fields %q, want %s with %q", err, fields, c.code, c.fields)
			}
		})
	}
}

// atHand is an allocator without free values. All are at hand at a registry, which returns them to calls
// that wait.
type atHand struct {
	allocatorv1.UnimplementedAllocatorServiceServer
}

func (atHand) Allocate(_ context.Context, req *allocatorv1.AllocateRequest) (*allocatorv1.AllocateResponse, error) {
	answer := &allocatorv1.AllocateResponse{}
	for _, set := range req.GetSets() {
		result := &allocatorv1.ClaimSetResult{}
		for i, claim := range set.GetClaims() {
			if req.GetWait() {
				result.Values = append(result.Values, fmt.Sprint(30000+i))
			} else {
				result.Failures = append(result.Failures, &allocatorv1.ClaimFailure{
					Slot: claim.GetSlot(), Reason: allocatorv1.FailureReason_FAILURE_REASON_AT_HAND, Message: "at hand elsewhere",
				})
			}
		}
		answer.Results = append(answer.Results, result)
	}
	return answer, nil
}

// TestClaimsWaitForValuesAtHand allocates values that another registry has to return first.
func TestClaimsWaitForValuesAtHand(t *testing.T) {
	for _, dryRun := range []bool{false, true} {
		svc := nodePortService()
		plan := allocator.NewPlan(svc, nil)
		if err := clientOf(t, atHand{}).Allocate(t.Context(), plan, allocator.Terms{DryRun: dryRun, InUse: func(string) bool { return false }}); err != nil {
			t.Errorf("dry run %v: %v", dryRun, err)
		}
		if svc.GetSpec().GetClusterIps()[0] != "30000" {
			t.Errorf("dry run %v: addresses %v", dryRun, svc.GetSpec().GetClusterIps())
		}
	}
}
