package access

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kinds"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/object"
)

// boundMethods lists the methods that operators and viewers of one namespace may call, if Methods
// lists their role, besides the methods of the kinds with namespaces. Each method limits its answer
// to the caller's namespace, or its answer has no contents of namespaces. Query is listed because a
// name server answers the same question to every client over DNS.
var boundMethods = map[string][]string{
	"portolan.registry.v1.ApplyService":               {"Apply"},
	"portolan.registry.v1.BulkService":                {"Write"},
	"portolan.registry.v1.DiscoveryService":           {"RenderEnv", "GetSettings"},
	"portolan.endpoints.v1.EndpointControllerService": {"ExplainService"},
	"portolan.dns.v1.DNSService":                      {"Query"},
	"portolan.nodeagent.v1.NodeAgentService":          {"ReportCheck"},
	"grpc.health.v1.Health":                           {"Check", "List", "Watch"},
	"grpc.reflection.v1.ServerReflection":             {"ServerReflectionInfo"},
	"grpc.reflection.v1alpha.ServerReflection":        {"ServerReflectionInfo"},
}

// isBound reports whether an identity is an operator or a viewer of one namespace.
func isBound(id identity.ID) bool {
	return id.Namespace != "" && (id.Role == identity.Operator || id.Role == identity.Viewer)
}

// boundMay reports whether operators and viewers of one namespace may call a method that their role
// may call.
func boundMay(service, method string) bool {
	if kind := kindOfService(service); kind != nil {
		return kind.Namespaced
	}
	return slices.Contains(boundMethods[service], method)
}

// kindOfService returns the kind that a gRPC service of the registry reads and writes, or nil if the
// service does not belong to a kind.
func kindOfService(service string) *kinds.Kind {
	if name, ok := strings.CutPrefix(service, "portolan.registry.v1."); ok {
		for _, kind := range kinds.All {
			if kind.ServiceName() == name {
				return kind
			}
		}
	}
	return nil
}

// CheckNamespace returns an error if the caller is bound to another namespace than the given one.
// An empty namespace is "default". Servers call it before they look an object up, so that the error
// does not depend on whether the object exists.
func CheckNamespace(ctx context.Context, namespace string) error {
	id, err := identity.Caller(ctx)
	if err != nil {
		return nil //nolint:nilerr // without TLS there are no roles
	}
	if reason := otherNamespace(id, cmp.Or(namespace, object.DefaultNamespace)); reason != "" {
		return apierr.PermissionDenied(reason)
	}
	return nil
}

// ListNamespace returns the namespace that a list or watch reads. If the request names no namespace, a
// bound caller reads its own namespace, and other callers read all of them, for which ListNamespace
// returns "". It returns the error of CheckNamespace for a namespace that the caller may not read.
func ListNamespace(ctx context.Context, namespace string) (string, error) {
	if namespace != "" {
		return namespace, CheckNamespace(ctx, namespace)
	}
	id, err := identity.Caller(ctx)
	if err != nil {
		return "", nil //nolint:nilerr // without TLS there are no roles
	}
	return id.Namespace, nil
}

// otherNamespace returns an error text if an identity is bound to another namespace, otherwise "".
func otherNamespace(id identity.ID, namespace string) string {
	if id.Namespace == "" || id.Namespace == namespace {
		return ""
	}
	return fmt.Sprintf("%s is bound to the namespace %q, and this is %q: --namespace %[2]s chooses its own", id, id.Namespace, namespace)
}

// boundOperator allows writes to the objects of the operator's namespace, except Leases and new
// addresses of load balancers. Leases decide which replica of a controller leads, for all
// namespaces. Every node takes the traffic for the address of a load balancer, even if the address
// belongs to a machine of another owner, and no range limits these addresses as it limits external
// IPs. Edges take the traffic for addresses that nodes leave to the provider.
func boundOperator(id identity.ID, updated, old object.Object) string {
	for _, o := range []object.Object{old, updated} {
		if o == nil {
			continue
		}
		key := object.KeyOf(o)
		kind, _ := kinds.Named(key.Kind)
		switch {
		case !kind.Namespaced:
			return fmt.Sprintf("an operator of one namespace writes no %s; this needs a certificate of operator", key.Kind)
		case key.Kind == "Lease":
			return "a Lease decides which controller leads, for all namespaces; this needs a certificate of operator"
		}
		if reason := otherNamespace(id, cmp.Or(key.Namespace, object.DefaultNamespace)); reason != "" {
			return reason
		}
	}
	if addsBalancerAddress(updated, old) {
		return "nodes or edges take all traffic for the address of a load balancer, and its provider reports it; this needs a certificate of operator"
	}
	return ""
}

// addsBalancerAddress reports whether a write adds an address of a load balancer to a service, or
// changes the ipMode of an address, which decides whether nodes take its traffic.
func addsBalancerAddress(updated, old object.Object) bool {
	svc, _ := updated.(*corev1.Service)
	before, _ := old.(*corev1.Service)
	had := before.GetStatus().GetLoadBalancer().GetIngress()
	return slices.ContainsFunc(svc.GetStatus().GetLoadBalancer().GetIngress(), func(ingress *corev1.LoadBalancerIngress) bool {
		return !slices.ContainsFunc(had, func(h *corev1.LoadBalancerIngress) bool {
			return h.GetIp() == ingress.GetIp() && h.GetIpMode() == ingress.GetIpMode()
		})
	})
}
