package balancer

import (
	"slices"
	"testing"

	corev1 "portolan.dev/api/core/v1"
)

// TestWhichServicesAreRefused checks for each class which annotations are refused and which are only reported as
// ignored. Edges implement the annotations, so that a value that is not valid is a mistake of the service. Other classes
// must accept the manifests of clouds.
func TestWhichServicesAreRefused(t *testing.T) {
	const invalid, edgeOnly, unknown = Prefix + "idle-timeout", Prefix + "proxy-protocol", Prefix + "nonsense"
	metal, edge, pool := "example.com/metal", ClassEdge, ClassPool
	for name, c := range map[string]struct {
		class            *string
		kind             corev1.ServiceType
		refused, ignored []string
	}{
		"edge":                {&edge, corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER, []string{invalid}, []string{unknown}},
		"pool":                {&pool, corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER, nil, []string{invalid, unknown, edgeOnly}},
		"no class":            {nil, corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER, nil, []string{invalid, unknown, edgeOnly}},
		"another provider":    {&metal, corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER, nil, []string{unknown}},
		"no balancer":         {&edge, corev1.ServiceType_SERVICE_TYPE_CLUSTER_IP, nil, nil},
		"no balancer of pool": {nil, corev1.ServiceType_SERVICE_TYPE_NODE_PORT, nil, nil},
	} {
		svc := service(invalid, "soon", edgeOnly, "v2", unknown, "x")
		svc.Spec.LoadBalancerClass, svc.Spec.Type = c.class, c.kind
		if got := annotationsOf(Violations(svc)); !slices.Equal(got, c.refused) {
			t.Errorf("%s: refused are %v, want %v", name, got, c.refused)
		}
		if got := annotationsOf(Ignored(svc)); !slices.Equal(got, c.ignored) {
			t.Errorf("%s: ignored are %v, want %v", name, got, c.ignored)
		}
	}
}

// annotationsOf returns the annotations of problems, ordered and each once.
func annotationsOf(problems []Problem) []string {
	var all []string
	for _, p := range problems {
		all = append(all, p.Annotation)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
