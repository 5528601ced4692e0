package balancer

import (
	"fmt"

	corev1 "portolan.dev/api/core/v1"
)

// Violations returns the problems for which a service is refused. These are invalid values of a service
// with the edge's class. Other classes ignore the annotations, and manifests of clouds must be accepted.
func Violations(svc *corev1.Service) []Problem {
	if !isBalancer(svc) || ClassOf(svc) != ClassEdge {
		return nil
	}
	_, problems := Parse(svc)
	return ofKind(problems, Invalid)
}

// Ignored returns the problems of a service's annotations that have no effect, or another effect than
// their value. If another provider implements the service's class, only the provider knows the effects.
// Then Ignored checks only that annotations with Portolan's prefix are in the table.
func Ignored(svc *corev1.Service) []Problem {
	if !isBalancer(svc) {
		return nil
	}
	switch ClassOf(svc) {
	case ClassEdge:
		_, problems := Parse(svc)
		return ofKind(problems, NotHonoured)
	case ClassPool:
		return ignoredByPool(svc)
	}
	p := parser{svc: svc}
	p.checkUnknown(Prefix)
	return p.problems
}

// ignoredByPool returns the problems of a service's annotations that have no effect with ClassPool.
func ignoredByPool(svc *corev1.Service) []Problem {
	p := parser{svc: svc}
	for i := range table {
		row := &table[i]
		if row.By == ByProvider {
			continue
		}
		for _, g := range row.given(svc.GetMetadata().GetAnnotations()) {
			remedy := ""
			if row.By == ByEdge {
				remedy = ": use the class " + ClassEdge
			}
			p.notHonoured(g.name, "has no effect: the class of the load balancer is %s%s", ClassPool, remedy)
		}
	}
	p.checkUnknown(Prefix, awsPrefix)
	return p.problems
}

func isBalancer(svc *corev1.Service) bool {
	return svc.GetSpec().GetType() == corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER
}

func ofKind(problems []Problem, kind ProblemKind) []Problem {
	var found []Problem
	for _, p := range problems {
		if p.Kind == kind {
			found = append(found, p)
		}
	}
	return found
}

// Field returns the path of the annotation in a manifest.
func (p Problem) Field() string { return fmt.Sprintf("metadata.annotations[%s]", p.Annotation) }
