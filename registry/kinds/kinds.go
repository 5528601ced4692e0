package kinds

import (
	"time"

	corev1 "portolan.dev/proto/portolan/core/v1"
	"portolan.dev/registry/view"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// World is what a write is judged by, beside the object.
type World struct {
	Rules    spec.Rules
	Families []corev1.IPFamily // that the installation has, its default first
	Indexes  *Indexes
	Revision uint64 // newest that is known
	Now      time.Time
	// ByController: the writer is a controller, by the lease that the write names or by its certificate.
	ByController bool
}

// Row is one kind. Hooks may be nil; old is nil on a create, and what a hook gets as old must not be changed.
type Row struct {
	object.Kind

	// Settle completes what depends on the installation; it runs before validation.
	Settle func(w World, o, old object.Object) apierr.Violations
	// Check holds the object against others; it runs with validation.
	Check func(w World, o, old object.Object) apierr.Violations
	// CheckStatus holds a reported status against other objects; it runs with validation.
	CheckStatus func(w World, o, old object.Object) apierr.Violations
	// Stamp sets what only the registry may set; it runs last.
	Stamp func(w World, o, old object.Object)
	// Fold returns the object that a new one is a repetition of, nil if it is none; Repeat makes that object count it.
	Fold   func(w World, o object.Object) *view.Item
	Repeat func(w World, existing, o object.Object)
	// Service returns the object as a service, which has values from the allocator.
	Service func(o object.Object) *corev1.Service
	// Epoch returns the fencing epoch that writes can be tied to.
	Epoch func(o object.Object) uint64
	// Grace returns the seconds that an object has between the request to delete it and its end, of which wanted is what
	// the request says, nil if it says nothing. Without the hook it is 0.
	Grace func(o object.Object, wanted *int64) int64
	// Terminate marks an object of which all else must go before it: deleting it never removes it at once.
	Terminate func(o object.Object)
	// Undeletable returns why an object must stay, or "".
	Undeletable func(o object.Object) string
}

// special has the hooks of the kinds that have some.
var special = map[string]Row{
	"Namespace": {
		Terminate:   terminateNamespace,
		Undeletable: undeletableNamespace,
	},
	"Service": {
		Settle:      settleService,
		Check:       checkService,
		Service:     func(o object.Object) *corev1.Service { svc, _ := o.(*corev1.Service); return svc },
		CheckStatus: checkServiceStatus,
	},
	"EndpointSlice": {Check: checkEndpointSlice},
	"Endpoints":     {Check: checkEndpoints},
	"Pod":           {CheckStatus: checkPodStatus, Grace: podGrace},
	"Lease": {
		Stamp: stampLease,
		Epoch: func(o object.Object) uint64 { lease, _ := o.(*corev1.Lease); return lease.GetSpec().GetEpoch() },
	},
	"Event": {Stamp: stampEvent, Fold: foldEvent, Repeat: repeatEvent},
}

// All lists every kind, in the order of object.Kinds.
var All = rows()

func rows() []*Row {
	all := make([]*Row, 0, len(object.Kinds))
	for _, kind := range object.Kinds {
		row := special[kind.Name]
		row.Kind = kind
		all = append(all, &row)
	}
	return all
}

var byName = index()

func index() map[string]*Row {
	names := make(map[string]*Row, len(All))
	for _, row := range All {
		names[row.Name] = row
	}
	return names
}

// Of returns the row of an object's kind.
func Of(o object.Object) *Row { return byName[object.KindOf(o)] }

// Named returns the row of a kind by its exact name, nil for an unknown one.
func Named(name string) *Row { return byName[name] }

func terminateNamespace(o object.Object) {
	if namespace, ok := o.(*corev1.Namespace); ok {
		if namespace.Status == nil {
			namespace.Status = &corev1.NamespaceStatus{}
		}
		namespace.Status.Phase = corev1.NamespacePhase_NAMESPACE_PHASE_TERMINATING
	}
}

func undeletableNamespace(o object.Object) string {
	if o.GetMetadata().GetName() == object.DefaultNamespace {
		return "the namespace default is always there"
	}
	return ""
}

// podGrace returns 0 for a pod that does not run, because nothing of it has to end.
func podGrace(o object.Object, wanted *int64) int64 {
	pod, _ := o.(*corev1.Pod)
	switch {
	case !runs(pod.GetStatus()):
		return 0
	case wanted != nil:
		return *wanted
	default:
		return pod.GetSpec().GetTerminationGracePeriodSeconds() // has a default
	}
}

func runs(status *corev1.PodStatus) bool {
	switch status.GetPhase() {
	case corev1.PodPhase_POD_PHASE_SUCCEEDED, corev1.PodPhase_POD_PHASE_FAILED:
		return false
	case corev1.PodPhase_POD_PHASE_RUNNING:
		return true
	default:
		return status.GetPodIp() != "" || len(status.GetPodIps()) > 0
	}
}
