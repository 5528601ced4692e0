package packing

import "portolan.dev/services/spec"

// Annotations in the spelling of Kubernetes.
const (
	AnnotationTrigger      = "endpoints.kubernetes.io/last-change-trigger-time"
	AnnotationOverCapacity = "endpoints.kubernetes.io/over-capacity"
	annotationLeader       = "control-plane.alpha.kubernetes.io/leader"
	annotationLastApplied  = "kubectl.kubernetes.io/last-applied-configuration"

	overCapacity = "truncated"
)

// Sizes.
const (
	// DefaultMaxPerSlice is the default largest number of endpoints in a slice.
	DefaultMaxPerSlice = 100
	// MaxEndpoints is the largest number of addresses in an Endpoints object, and of addresses of
	// one subset that are mirrored.
	MaxEndpoints = spec.MaxEndpoints
)
