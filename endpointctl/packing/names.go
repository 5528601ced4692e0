package packing

import "portolan.dev/services/spec"

// Labels and annotations in the spelling of Kubernetes.
const (
	LabelServiceName = spec.LabelServiceName
	LabelManagedBy   = spec.LabelManagedBy
	LabelHeadless    = "service.kubernetes.io/headless"
	LabelSkipMirror  = "endpointslice.kubernetes.io/skip-mirror"
	// LabelEndpointsManagedBy distinguishes the Endpoints of this controller from those that people
	// write.
	LabelEndpointsManagedBy = spec.LabelEndpointsManagedBy
	LabelZone               = "topology.kubernetes.io/zone"

	AnnotationTrigger      = "endpoints.kubernetes.io/last-change-trigger-time"
	AnnotationOverCapacity = "endpoints.kubernetes.io/over-capacity"
	annotationLeader       = "control-plane.alpha.kubernetes.io/leader"
	annotationLastApplied  = "kubectl.kubernetes.io/last-applied-configuration"

	// ManagedByController is the value on slices made from selectors, ManagedByMirroring on slices
	// made from Endpoints.
	ManagedByController = spec.ManagedByController
	ManagedByMirroring  = spec.ManagedByMirroring

	endpointsController = spec.ManagedByEndpoints
	overCapacity        = "truncated"
	conditionReady      = "Ready"
)

// Sizes.
const (
	// DefaultMaxPerSlice is the default largest number of endpoints in a slice.
	DefaultMaxPerSlice = 100
	// MaxEndpoints is the largest number of addresses in an Endpoints object, and of addresses of
	// one subset that are mirrored.
	MaxEndpoints = 1000
)
