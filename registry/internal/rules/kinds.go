package rules

import (
	"time"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/registry/internal/offers"
	"portolan.dev/registry/internal/view"
	"portolan.dev/services/kinds"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// Context holds everything that a write is validated against, other than the object.
type Context struct {
	Rules    spec.Rules
	Families []corev1.IPFamily // IP families of the installation, the default first
	Indexes  *Indexes
	Offers   *offers.Catalog // capabilities of the classes of load balancers
	Revision uint64          // newest known revision
	Now      time.Time
	// RevocationTTL is the default lifetime of Revocations.
	RevocationTTL time.Duration
	// ByController is set if the writer is a controller, according to the lease that the write
	// names or to its certificate.
	ByController bool
	// Writer is the path of the writer's identity. It is empty without TLS, and for the registry itself.
	Writer string
}

// Kind is a kind with its hooks, which may be nil. old is nil on a create, and a hook must not
// change it.
type Kind struct {
	*kinds.Kind

	// Complete sets fields that depend on the installation. It runs before validation.
	Complete func(w Context, o, old object.Object) apierr.Violations
	// Check validates the object against other objects. It runs with validation.
	Check func(w Context, o, old object.Object) apierr.Violations
	// CheckStatus validates a reported status against other objects. It runs with validation.
	CheckStatus func(w Context, o, old object.Object) apierr.Violations
	// SetRegistryFields sets the fields that only the registry may set. It runs last.
	SetRegistryFields func(w Context, o, old object.Object)
	// FindRepeated returns the existing object that a new one repeats, or nil. CountRepetition
	// updates that object for the repetition.
	FindRepeated    func(w Context, o object.Object) *view.Item
	CountRepetition func(w Context, existing, o object.Object)
	// Service returns the object as a service, which has allocated values.
	Service func(o object.Object) *corev1.Service
	// Epoch returns the fencing epoch that writes can be tied to.
	Epoch func(o object.Object) uint64
	// Grace returns the seconds between the request to delete an object and its removal. wanted is
	// the grace period of the request, nil if it has none. Without the hook the grace period is 0.
	Grace func(o object.Object, wanted *int64) int64
	// MarkTerminating marks a deleted object as terminating. Objects of a kind with
	// MarkTerminating, such as namespaces, are removed after their contents.
	MarkTerminating func(o object.Object)
	// IdentitiesOf returns the paths of the identities that belong to an object. Their certificates are
	// revoked when the object is deleted.
	IdentitiesOf func(o object.Object) []string
	// Warn returns warnings about a valid object that depend on the time.
	Warn func(now time.Time, o object.Object) []string
	// DeletionForbidden returns why an object cannot be deleted, or "".
	DeletionForbidden func(o object.Object) string
}

// hooksByKind holds the hooks of the kinds that have any.
var hooksByKind = map[string]Kind{
	"Namespace": {
		MarkTerminating:   markNamespaceTerminating,
		DeletionForbidden: namespaceDeletionForbidden,
	},
	"Service": {
		Complete:    completeService,
		Check:       checkService,
		Service:     func(o object.Object) *corev1.Service { svc, _ := o.(*corev1.Service); return svc },
		CheckStatus: checkServiceStatus,
	},
	"Node":          {Check: checkNodeAddresses, CheckStatus: checkNodeAddresses, IdentitiesOf: daemonsOf},
	"EndpointSlice": {Check: checkEndpointSlice},
	"Endpoints":     {Check: checkEndpoints},
	"Pod":           {CheckStatus: checkPodStatus, Grace: podGrace},
	"Lease": {
		SetRegistryFields: setLeaseEpoch,
		Epoch:             func(o object.Object) uint64 { lease, _ := o.(*corev1.Lease); return lease.GetSpec().GetEpoch() },
	},
	"Event":      {SetRegistryFields: setEventTimes, FindRepeated: findRepeatedEvent, CountRepetition: countEventRepetition},
	"Revocation": {Complete: completeRevocation},
	"Secret":     {Warn: warnOfCertificate},
	"Token":      {Complete: completeToken, Check: checkTokenLife},
}

// All lists every kind, in the order of kinds.All.
var All = rows()

func rows() []*Kind {
	all := make([]*Kind, 0, len(kinds.All))
	for _, kind := range kinds.All {
		row := hooksByKind[kind.Name]
		row.Kind = kind
		all = append(all, &row)
	}
	return all
}

var byName = index()

func index() map[string]*Kind {
	names := make(map[string]*Kind, len(All))
	for _, row := range All {
		names[row.Name] = row
	}
	return names
}

// Of returns the row of an object's kind.
func Of(o object.Object) *Kind { return byName[object.KindOf(o)] }

// Named returns the row of the kind with this exact name, or nil.
func Named(name string) *Kind { return byName[name] }

func markNamespaceTerminating(o object.Object) {
	if namespace, ok := o.(*corev1.Namespace); ok {
		if namespace.Status == nil {
			namespace.Status = &corev1.NamespaceStatus{}
		}
		namespace.Status.Phase = corev1.NamespacePhase_NAMESPACE_PHASE_TERMINATING
	}
}

func namespaceDeletionForbidden(o object.Object) string {
	if o.GetMetadata().GetName() == object.DefaultNamespace {
		return "the namespace default is always there"
	}
	return ""
}

// podGrace returns 0 for a pod that is not running, because it has nothing to terminate.
func podGrace(o object.Object, wanted *int64) int64 {
	pod, _ := o.(*corev1.Pod)
	switch {
	case !isRunning(pod.GetStatus()):
		return 0
	case wanted != nil:
		return *wanted
	default:
		return pod.GetSpec().GetTerminationGracePeriodSeconds() // has a default
	}
}

func isRunning(status *corev1.PodStatus) bool {
	switch status.GetPhase() {
	case corev1.PodPhase_POD_PHASE_SUCCEEDED, corev1.PodPhase_POD_PHASE_FAILED:
		return false
	case corev1.PodPhase_POD_PHASE_RUNNING:
		return true
	default:
		return status.GetPodIp() != "" || len(status.GetPodIps()) > 0
	}
}
