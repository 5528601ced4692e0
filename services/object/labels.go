package object

// Labels of Kubernetes that Portolan reads or writes.
const (
	// LabelServiceName is the label of an EndpointSlice that names its service.
	LabelServiceName = "kubernetes.io/service-name"
	// LabelManagedBy names the writer of an EndpointSlice, LabelEndpointsManagedBy the writer of an
	// Endpoints object.
	LabelManagedBy          = "endpointslice.kubernetes.io/managed-by"
	LabelEndpointsManagedBy = "endpoints.kubernetes.io/managed-by"
	// LabelServiceProxyName on a service or an EndpointSlice, with any value, makes the node agents
	// ignore it, because another program may forward its traffic. LabelHeadless does the same. The
	// endpoint controller sets it on the slices of headless services.
	LabelServiceProxyName = "service.kubernetes.io/service-proxy-name"
	LabelHeadless         = "service.kubernetes.io/headless"
	// LabelSkipMirror on an Endpoints object keeps it from being mirrored if its value is "true".
	LabelSkipMirror = "endpointslice.kubernetes.io/skip-mirror"
	// LabelZone names the zone of a node.
	LabelZone = "topology.kubernetes.io/zone"
)

// Values of LabelManagedBy and LabelEndpointsManagedBy on objects that the endpoint controller
// writes.
const (
	// ManagedByController marks slices made from selectors.
	ManagedByController = "endpointslice-controller.k8s.io"
	// ManagedByMirroring marks slices made from Endpoints objects.
	ManagedByMirroring = "endpointslicemirroring-controller.k8s.io"
	// ManagedByEndpoints marks Endpoints objects made from selectors.
	ManagedByEndpoints = "endpoint-controller"
)

// Annotations of a service.
const (
	// AnnotationSourceRanges is the older form of spec.loadBalancerSourceRanges. The field takes
	// precedence.
	AnnotationSourceRanges = "service.beta.kubernetes.io/load-balancer-source-ranges"
	// AnnotationRangesApplyTo lists the exposures that the source ranges apply to. It is an
	// annotation and not a field, so that manifests stay valid in Kubernetes.
	AnnotationRangesApplyTo = "portolan.dev/source-ranges-apply-to"
	// AnnotationTopologyMode requests backends in the client's zone if its value is "Auto".
	// AnnotationTopologyModeOlder is its older name.
	AnnotationTopologyMode      = "service.kubernetes.io/topology-mode"
	AnnotationTopologyModeOlder = "service.kubernetes.io/topology-aware-hints"
)
