package syncloop

import (
	"slices"

	corev1 "portolan.dev/api/core/v1"
)

// The places of services that all others depend on: the control plane's and the name server's. A
// node that starts programs them before all others.
var (
	urgentNamespaces = []string{"kube-system", "portolan-system"}
	// urgentLabels are labels in the manifests of name servers.
	urgentLabels = map[string][]string{
		"k8s-app":                {"kube-dns", "coredns"},
		"app.kubernetes.io/name": {"coredns", "portolan-dnssvc", "portolan-registry"},
	}
)

// urgentAnnotation marks a service as urgent with any value except "false".
const urgentAnnotation = "portolan.dev/program-first"

// urgent reports whether a service is programmed before others.
func urgent(svc *corev1.Service) bool {
	meta := svc.GetMetadata()
	if v, ok := meta.GetAnnotations()[urgentAnnotation]; ok {
		return v != "false"
	}
	if meta.GetNamespace() == "default" && meta.GetName() == "kubernetes" || slices.Contains(urgentNamespaces, meta.GetNamespace()) {
		return true
	}
	for key, values := range urgentLabels {
		if slices.Contains(values, meta.GetLabels()[key]) {
			return true
		}
	}
	return false
}
