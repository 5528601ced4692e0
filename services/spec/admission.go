package spec

import (
	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
)

// kindRules holds the functions of one kind, with signatures that are the same for all kinds.
type kindRules struct {
	fill           func(object.Object)
	validate       func(object.Object, Rules) apierr.Violations
	validateUpdate func(updated, old object.Object, rules Rules) apierr.Violations
	validateStatus func(object.Object, Rules) apierr.Violations
}

func rulesFor[T object.Object](
	fill func(T), validate func(T, Rules) apierr.Violations, update func(updated, old T, rules Rules) apierr.Violations,
	status func(T, Rules) apierr.Violations,
) kindRules {
	rules := kindRules{
		fill:     func(o object.Object) { fill(o.(T)) },
		validate: func(o object.Object, r Rules) apierr.Violations { return validate(o.(T), r) },
		validateUpdate: func(updated, old object.Object, r Rules) apierr.Violations {
			return update(updated.(T), old.(T), r)
		},
		validateStatus: func(object.Object, Rules) apierr.Violations { return nil },
	}
	if status != nil {
		rules.validateStatus = func(o object.Object, r Rules) apierr.Violations { return status(o.(T), r) }
	}
	return rules
}

var byKind = map[string]kindRules{
	"Service":       rulesFor(DefaultService, ValidateService, ValidateServiceUpdate, ValidateServiceStatus),
	"EndpointSlice": rulesFor(DefaultEndpointSlice, ValidateEndpointSlice, ValidateEndpointSliceUpdate, nil),
	"Endpoints":     rulesFor(DefaultEndpoints, ValidateEndpoints, ValidateEndpointsUpdate, nil),
	"Pod":           rulesFor(DefaultPod, ValidatePod, ValidatePodUpdate, ValidatePodStatus),
	"Node":          rulesFor(DefaultNode, ValidateNode, ValidateNodeUpdate, ValidateNodeStatus),
	"Namespace": rulesFor(DefaultNamespace, ValidateNamespace, ValidateNamespaceUpdate,
		func(namespace *corev1.Namespace, _ Rules) apierr.Violations {
			return ValidateNamespaceStatus(namespace)
		}),
	"Lease": rulesFor(DefaultLease, ValidateLease, ValidateLeaseUpdate, nil),
	"Event": rulesFor(DefaultEvent, ValidateEvent, ValidateEventUpdate, nil),
}

// Default sets the default values of an object of any kind. It is idempotent.
func Default(o object.Object) { byKind[object.KindOf(o)].fill(o) }

// Validate checks a new object of any kind.
func Validate(o object.Object, rules Rules) apierr.Violations {
	return byKind[object.KindOf(o)].validate(o, rules)
}

// ValidateUpdate checks an object of any kind that is to replace old, which has the same kind.
func ValidateUpdate(updated, old object.Object, rules Rules) apierr.Violations {
	return byKind[object.KindOf(updated)].validateUpdate(updated, old, rules)
}

// ValidateStatus checks the status of an object of any kind.
func ValidateStatus(o object.Object, rules Rules) apierr.Violations {
	return byKind[object.KindOf(o)].validateStatus(o, rules)
}
