package packing

import "portolan.dev/services/spec"

// Labels and annotations, as Kubernetes spells them.
const (
	LabelServiceName = spec.LabelServiceName
	LabelManagedBy   = spec.LabelManagedBy
	LabelHeadless    = "service.kubernetes.io/headless"
	LabelSkipMirror  = "endpointslice.kubernetes.io/skip-mirror"
	// LabelEndpointsManagedBy tells Endpoints of ours from those that people write.
	LabelEndpointsManagedBy = spec.LabelEndpointsManagedBy
	LabelZone               = "topology.kubernetes.io/zone"

	AnnotationTrigger      = "endpoints.kubernetes.io/last-change-trigger-time"
	AnnotationOverCapacity = "endpoints.kubernetes.io/over-capacity"
	annotationLeader       = "control-plane.alpha.kubernetes.io/leader"
	annotationLastApplied  = "kubectl.kubernetes.io/last-applied-configuration"

	// ManagedByController is on slices made from selectors, ManagedByMirroring on those made from Endpoints.
	ManagedByController = spec.ManagedByController
	ManagedByMirroring  = spec.ManagedByMirroring

	endpointsController = spec.ManagedByEndpoints
	overCapacity        = "truncated"
	conditionReady      = "Ready"
)

// Sizes.
const (
	// DefaultMaxPerSlice is how many endpoints a slice has at most, unless told otherwise.
	DefaultMaxPerSlice = 100
	// MaxEndpoints is how many addresses an Endpoints has at most, and how many of a subset are mirrored.
	MaxEndpoints = 1000
)
