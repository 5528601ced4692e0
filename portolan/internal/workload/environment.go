package workload

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	allocatorv1 "portolan.dev/api/allocator/v1"
	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/spec"
)

// allocate gives the pod an address of each family that the installation's pod ranges have.
func (r *Runner) allocate(ctx context.Context) ([]string, error) {
	families := r.families()
	claims := make([]*allocatorv1.Claim, 0, len(families))
	for _, family := range families {
		claims = append(claims, &allocatorv1.Claim{Slot: "podIPs/" + spec.EnumName(family), Use: allocatorv1.Use_USE_POD_IP, Family: family})
	}
	meta := r.pod.GetMetadata()
	client := allocatorv1.NewAllocatorServiceClient(r.Allocator)
	response, err := client.Allocate(ctx, &allocatorv1.AllocateRequest{Sets: []*allocatorv1.ClaimSet{{
		Owner: &allocatorv1.Owner{Uid: meta.GetUid(), Kind: "Pod", Namespace: meta.GetNamespace(), Name: meta.GetName()}, Claims: claims,
	}}})
	if err != nil {
		return nil, fmt.Errorf("address for the pod: %w", err)
	}
	result := response.GetResults()[0]
	if failures := result.GetFailures(); len(failures) > 0 {
		return nil, errors.New("address for the pod: " + failures[0].GetMessage())
	}
	if _, err := client.Confirm(ctx, &allocatorv1.ConfirmRequest{Owners: []*allocatorv1.OwnerSlots{{OwnerUid: meta.GetUid()}}}); err != nil {
		return nil, fmt.Errorf("address for the pod: %w", err)
	}
	return result.GetValues(), nil
}

// families returns the families of the pod ranges, in the order of the ranges. It returns IPv4 if
// the installation does not publish its pod ranges.
func (r *Runner) families() []corev1.IPFamily {
	var families []corev1.IPFamily
	for _, text := range r.settings.GetPodCidrs() {
		address, _, _ := strings.Cut(text, "/")
		if family := spec.FamilyOf(address); family != 0 && !slices.Contains(families, family) {
			families = append(families, family)
		}
	}
	if len(families) == 0 {
		families = []corev1.IPFamily{corev1.IPFamily_IP_FAMILY_IPV4}
	}
	return families
}

// release releases the addresses. If that fails, the allocator's verifier does it later.
func (r *Runner) release(ctx context.Context) {
	if len(r.Options.Addresses) > 0 {
		return // they are not allocated
	}
	uid := r.pod.GetMetadata().GetUid()
	_, _ = allocatorv1.NewAllocatorServiceClient(r.Allocator).Release(ctx, &allocatorv1.ReleaseRequest{
		Owners: []*allocatorv1.OwnerSlots{{OwnerUid: uid}},
	})
}

// passedOn lists the PORTOLAN_ variables that the program gets: the addresses of the daemons.
var passedOn = []string{"PORTOLAN_SERVER", "PORTOLAN_ALLOCATOR", "PORTOLAN_ENDPOINTCTL", "PORTOLAN_DNSSVC"}

// withoutCredentials returns an environment without the variables of this program that name
// certificates or may have other secrets. All but the known harmless ones are left out, so that a
// new variable does not reach the program unnoticed.
func withoutCredentials(environment []string) []string {
	return slices.DeleteFunc(environment, func(line string) bool {
		name, _, _ := strings.Cut(line, "=")
		return strings.HasPrefix(name, "PORTOLAN_") && !slices.Contains(passedOn, name)
	})
}

// environment returns the caller's environment without credentials, the properties of the pod, and
// the discovery variables. A variable that the program gets from the caller is not changed.
func (r *Runner) environment(ctx context.Context) ([]string, error) {
	meta := r.pod.GetMetadata()
	rendered, err := registryv1.NewDiscoveryServiceClient(r.Registry).RenderEnv(ctx, &registryv1.RenderEnvRequest{
		Namespace: meta.GetNamespace(), EnableServiceLinks: &r.Options.ServiceLinks,
	})
	if err != nil {
		return nil, fmt.Errorf("discovery environment: %w", err)
	}
	environment := append(withoutCredentials(os.Environ()),
		"POD_IP="+r.pod.GetStatus().GetPodIp(), "POD_IPS="+strings.Join(r.pod.GetStatus().GetPodIps(), ","), "POD_NAME="+meta.GetName(), "POD_NAMESPACE="+meta.GetNamespace(),
		"NODE_NAME="+r.pod.GetSpec().GetNodeName())
	return appendUnset(environment, rendered.GetLines()), nil
}

// appendUnset appends the variables with names that the environment lacks. The
// PORTOLAN_SERVICE_HOST of a service "portolan" is appended, because withoutCredentials has removed the
// caller's.
func appendUnset(environment, variables []string) []string {
	set := make(map[string]bool, len(environment))
	for _, line := range environment {
		name, _, _ := strings.Cut(line, "=")
		set[name] = true
	}
	for _, line := range variables {
		if name, _, _ := strings.Cut(line, "="); !set[name] {
			environment = append(environment, line)
		}
	}
	return environment
}
