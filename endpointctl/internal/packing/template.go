package packing

import (
	"maps"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
)

// Template holds the properties that all slices of a service share.
type Template struct {
	Namespace    string
	GenerateName string
	Labels       map[string]string
	// Annotations are the annotations of a slice that mirrors an Endpoints. nil: the annotations that a slice has
	// stay, except for the trigger time.
	Annotations map[string]string
	Owner       *corev1.OwnerReference
	// Trigger is the time of the change that causes the write, as RFC 3339 with nanoseconds. It is
	// empty if unknown.
	Trigger string
}

// serviceTemplate returns the template of a service with a selector.
func serviceTemplate(svc *corev1.Service) Template {
	meta := svc.GetMetadata()
	return Template{
		Namespace:    meta.GetNamespace(),
		GenerateName: meta.GetName() + "-",
		Labels:       sliceLabels(meta.GetLabels(), meta.GetName(), object.ManagedByController, object.IsHeadless(svc)),
		Owner:        ownerReference("Service", meta),
	}
}

// sliceLabels copies the labels of the slice's source and adds the controller's labels.
func sliceLabels(from map[string]string, service, managedBy string, headless bool) map[string]string {
	labels := make(map[string]string, len(from)+3)
	maps.Copy(labels, from)
	labels[object.LabelServiceName], labels[object.LabelManagedBy] = service, managedBy
	delete(labels, object.LabelHeadless)
	if headless {
		labels[object.LabelHeadless] = ""
	}
	return labels
}

func ownerReference(kind string, meta *corev1.ObjectMeta) *corev1.OwnerReference {
	yes := true
	return &corev1.OwnerReference{
		ApiVersion: "v1", Kind: kind, Name: meta.GetName(), Uid: meta.GetUid(), Controller: &yes, BlockOwnerDeletion: &yes,
	}
}

// newSlice returns a new slice without endpoints.
func (t *Template) newSlice(family corev1.AddressType, ports []*corev1.EndpointPort) *corev1.EndpointSlice {
	s := &corev1.EndpointSlice{
		Metadata:    &corev1.ObjectMeta{Namespace: t.Namespace, GenerateName: t.GenerateName},
		AddressType: family, Ports: ports,
	}
	t.applyTo(s)
	return s
}

// matches reports whether a slice has the properties of the template. The trigger time alone is no
// reason to write.
func (t *Template) matches(s *corev1.EndpointSlice) bool {
	meta := s.GetMetadata()
	if !maps.Equal(meta.GetLabels(), t.Labels) || len(meta.GetOwnerReferences()) != 1 || !meta.GetOwnerReferences()[0].EqualVT(t.Owner) {
		return false
	}
	return t.Annotations == nil || maps.Equal(meta.GetAnnotations(), t.Annotations)
}

// applyTo sets the properties of the template on a slice before it is written.
func (t *Template) applyTo(s *corev1.EndpointSlice) {
	s.Metadata.Labels = maps.Clone(t.Labels)
	s.Metadata.OwnerReferences = []*corev1.OwnerReference{t.Owner.CloneVT()}
	annotations := maps.Clone(s.GetMetadata().GetAnnotations())
	if t.Annotations != nil {
		annotations = maps.Clone(t.Annotations)
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	delete(annotations, AnnotationTrigger)
	if t.Trigger != "" {
		annotations[AnnotationTrigger] = t.Trigger
	}
	s.Metadata.Annotations = annotations
	if len(annotations) == 0 {
		s.Metadata.Annotations = nil
	}
}
