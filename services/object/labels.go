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

	// LabelSource on a pod of a registrar names the source that it was registered from, such as docker.
	LabelSource = "portolan.dev/source"
	// LabelService is the label that services made by registrars select: the name of the service.
	LabelService = "portolan.dev/service"
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

// AnnotationWorkload is the annotation of a pod that a workload or a registrar registered. Its value is
// the path of the identity, such as workload/n1/default or registrar/n1. The holder of that identity may
// change and delete the pod; see package access.
const AnnotationWorkload = "portolan.dev/workload"

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

	// AnnotationBalancerPool names the pool that the load-balancer addresses of a service come from.
	// AnnotationBalancerIPs lists the addresses that it requests, separated by commas. Services of a
	// namespace with the same value of AnnotationBalancerShare have the same addresses. Each has the
	// name that MetalLB gives it as its older one.
	AnnotationBalancerPool       = "loadbalancer.portolan.dev/pool"
	AnnotationBalancerPoolOlder  = "metallb.io/address-pool"
	AnnotationBalancerIPs        = "loadbalancer.portolan.dev/ips"
	AnnotationBalancerIPsOlder   = "metallb.io/loadBalancerIPs"
	AnnotationBalancerShare      = "loadbalancer.portolan.dev/share"
	AnnotationBalancerShareOlder = "metallb.io/allow-shared-ip"
	// AnnotationBalancerInternal asks for a load balancer that only the own network reaches, unless its
	// value is "false". See services/balancer for the annotations of cloud providers.
	AnnotationBalancerInternal = "loadbalancer.portolan.dev/internal"
	// AnnotationBalancerProvider is set by lbctl, with its finalizer, to the class of the provider that
	// has made the load balancer. A service that loses its type loses its class too.
	AnnotationBalancerProvider = "loadbalancer.portolan.dev/provider"
)

// AnnotationBalancerOffers is the annotation of a Lease in which lbctl reports the capabilities of the classes of
// load balancers.
const AnnotationBalancerOffers = "lbctl.portolan.dev/offers"

// FinalizerLoadBalancer keeps a service until lbctl has had its load balancer deleted.
const FinalizerLoadBalancer = "service.kubernetes.io/load-balancer-cleanup"
