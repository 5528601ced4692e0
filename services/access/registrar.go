package access

import (
	"cmp"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/object"
)

// registrar allows writes to the registrar's own pods, new services that are reached at a virtual IP
// only, new namespaces if the registrar is not bound to one, and Events in the registrar's name.
func registrar(id identity.ID, updated, old object.Object) string {
	written := updated
	if written == nil {
		written = old
	}
	kind := object.KindOf(written)
	switch o := written.(type) {
	case *corev1.Pod:
		return ownPods(id, updated, old)
	case *corev1.Event:
		if updated != nil {
			return checkReporter(o, "registrar", id.Name)
		}
	case *corev1.Service:
		if old == nil {
			return newService(id, o)
		}
	case *corev1.Namespace:
		if old == nil {
			return newNamespace(id, o)
		}
	default:
		return "a registrar writes its pods, new services and namespaces, and Events only"
	}
	return fmt.Sprintf("a registrar creates a %s, and changes and deletes none", kind)
}

// newService returns the reason why a registrar may not create a service, or "" if it may. The service
// may have none of the fields by which nodes, edges or providers take traffic from outside, or by which
// the client chooses an address or port. It has the annotation that names the registrar, and no other,
// because annotations choose classes, pools and addresses once an operator changes the type to
// LoadBalancer.
func newService(id identity.ID, svc *corev1.Service) string {
	if reason := otherNamespace(id, cmp.Or(svc.GetMetadata().GetNamespace(), object.DefaultNamespace)); reason != "" {
		return reason
	}
	if reason := notSigned(id, svc.GetMetadata()); reason != "" {
		return reason
	}
	s := cmp.Or(svc.GetSpec(), &corev1.ServiceSpec{})
	isChosen := func(ip string) bool { return ip != "" && ip != object.ClusterIPNone }
	for _, field := range []struct {
		name  string
		given bool
	}{
		{"spec.type", s.GetType() != corev1.ServiceType_SERVICE_TYPE_UNSPECIFIED && s.GetType() != corev1.ServiceType_SERVICE_TYPE_CLUSTER_IP},
		{"spec.clusterIP", isChosen(s.GetClusterIp())}, {"spec.clusterIPs", slices.ContainsFunc(s.GetClusterIps(), isChosen)},
		{"spec.ports[*].nodePort", slices.ContainsFunc(s.GetPorts(), func(p *corev1.ServicePort) bool { return p.GetNodePort() != 0 })},
		{"spec.healthCheckNodePort", s.GetHealthCheckNodePort() != 0},
		{"spec.externalIPs", len(s.GetExternalIps()) > 0}, {"spec.externalName", s.GetExternalName() != ""},
		{"spec.externalTrafficPolicy", s.GetExternalTrafficPolicy() != 0},
		{"spec.loadBalancerIP", s.GetLoadBalancerIp() != ""}, {"spec.loadBalancerClass", s.LoadBalancerClass != nil},
		{"spec.loadBalancerSourceRanges", len(s.GetLoadBalancerSourceRanges()) > 0},
		{"spec.allocateLoadBalancerNodePorts", s.AllocateLoadBalancerNodePorts != nil},
		{"status", proto.Size(svc.GetStatus()) > 0},
	} {
		if field.given {
			return "a registrar creates services of the type ClusterIP only, and chooses no address and no port of nodes: leave " + field.name + " out"
		}
	}
	return ""
}

// newNamespace returns the reason why a registrar may not create a namespace, or "" if it may. The
// namespace may have a name only, because selectors may choose namespaces by their labels.
func newNamespace(id identity.ID, namespace *corev1.Namespace) string {
	if id.Namespace != "" {
		return fmt.Sprintf("%s is bound to the namespace %q: an operator creates namespaces, or a registrar of all namespaces", id, id.Namespace)
	}
	if reason := notSigned(id, namespace.GetMetadata()); reason != "" {
		return reason
	}
	if len(namespace.GetMetadata().GetLabels()) > 0 || proto.Size(namespace.GetSpec())+proto.Size(namespace.GetStatus()) > 0 {
		return "a registrar creates namespaces with a name only: leave metadata.labels, spec and status out"
	}
	return ""
}

// notSigned returns the reason why a registrar may not create an object with this metadata, or "" if it
// may. Finalizers are refused because the registrar could not remove them later, so they would keep the
// object from being deleted.
func notSigned(id identity.ID, meta *corev1.ObjectMeta) string {
	annotations := meta.GetAnnotations()
	switch {
	case len(annotations) != 1 || annotations[object.AnnotationWorkload] != id.Path():
		return fmt.Sprintf("what a registrar creates has the annotation %s: %s, and no other", object.AnnotationWorkload, id.Path())
	case len(meta.GetFinalizers())+len(meta.GetOwnerReferences()) > 0:
		return "what a registrar creates has no metadata.finalizers and no metadata.ownerReferences"
	}
	return ""
}

// registrarReads reports whether a registrar may read an object: its own pods and Node, and the services
// and namespaces in which it may register pods.
func registrarReads(id identity.ID, o object.Object) bool {
	meta := o.GetMetadata()
	switch o := o.(type) {
	case *corev1.Pod:
		return notOwn(id, o) == ""
	case *corev1.Service:
		return otherNamespace(id, meta.GetNamespace()) == ""
	case *corev1.Namespace:
		return otherNamespace(id, meta.GetName()) == ""
	case *corev1.Node:
		return meta.GetName() == id.Name
	case *corev1.Revocation: // the registrar's API refuses revoked certificates
		return true
	}
	return false
}
