package workload

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	allocatorv1 "portolan.dev/proto/portolan/allocator/v1"
	corev1 "portolan.dev/proto/portolan/core/v1"
	registryv1 "portolan.dev/proto/portolan/registry/v1"
)

// allocate gives the pod an address of the installation's pod range.
func (r *Runner) allocate(ctx context.Context) (string, error) {
	meta := r.pod.GetMetadata()
	client := allocatorv1.NewAllocatorServiceClient(r.Allocator)
	response, err := client.Allocate(ctx, &allocatorv1.AllocateRequest{Sets: []*allocatorv1.ClaimSet{{
		Owner:  &allocatorv1.Owner{Uid: meta.GetUid(), Kind: "Pod", Namespace: meta.GetNamespace(), Name: meta.GetName()},
		Claims: []*allocatorv1.Claim{{Slot: "podIPs/IPv4", Use: allocatorv1.Use_USE_POD_IP, Family: corev1.IPFamily_IP_FAMILY_IPV4}},
	}}})
	if err != nil {
		return "", fmt.Errorf("address for the pod: %w", err)
	}
	result := response.GetResults()[0]
	if failures := result.GetFailures(); len(failures) > 0 {
		return "", errors.New("address for the pod: " + failures[0].GetMessage())
	}
	if _, err := client.Confirm(ctx, &allocatorv1.ConfirmRequest{Owners: []*allocatorv1.OwnerSlots{{OwnerUid: meta.GetUid()}}}); err != nil {
		return "", fmt.Errorf("address for the pod: %w", err)
	}
	return result.GetValues()[0], nil
}

// release gives the address back; where that fails, the allocator's verifier does it later.
func (r *Runner) release(ctx context.Context) {
	if r.Options.Address != "" {
		return // it is not the allocator's
	}
	uid := r.pod.GetMetadata().GetUid()
	_, _ = allocatorv1.NewAllocatorServiceClient(r.Allocator).Release(ctx, &allocatorv1.ReleaseRequest{
		Owners: []*allocatorv1.OwnerSlots{{OwnerUid: uid}},
	})
}

// environment is the caller's, then what the pod is, then the discovery variables; a variable that the caller has set stays as it is.
func (r *Runner) environment(ctx context.Context) ([]string, error) {
	meta := r.pod.GetMetadata()
	rendered, err := registryv1.NewDiscoveryServiceClient(r.Registry).RenderEnv(ctx, &registryv1.RenderEnvRequest{
		Namespace: meta.GetNamespace(), EnableServiceLinks: &r.Options.ServiceLinks,
	})
	if err != nil {
		return nil, fmt.Errorf("discovery environment: %w", err)
	}
	environment := append(os.Environ(),
		"POD_IP="+r.pod.GetStatus().GetPodIp(), "POD_NAME="+meta.GetName(), "POD_NAMESPACE="+meta.GetNamespace(),
		"NODE_NAME="+r.pod.GetSpec().GetNodeName())
	for _, line := range rendered.GetLines() {
		name, _, _ := strings.Cut(line, "=")
		if _, set := os.LookupEnv(name); !set {
			environment = append(environment, line)
		}
	}
	return environment, nil
}
