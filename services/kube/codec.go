package kube

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	kubev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"portolan.dev/services/apply"
	"portolan.dev/services/kinds"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
)

// Object is an object of a type of Kubernetes.
type Object interface {
	runtime.Object
	metav1.Object
}

// Codec converts the objects of one kind to one version of Kubernetes' API, and back.
type Codec struct {
	// GroupVersionKind names the type of Kubernetes.
	GroupVersionKind schema.GroupVersionKind
	// Kind is the kind of Portolan.
	Kind *kinds.Kind
	// New returns an empty object of the type of Kubernetes, and NewList an empty list.
	New     func() Object
	NewList func() runtime.Object

	write func(from object.Object, to Object)
	read  func(r *reader, from Object) object.Object
}

// Write converts an object to the type of Kubernetes. The result shares memory with the object, so
// neither may be changed afterwards.
func (c *Codec) Write(from object.Object) Object {
	to := c.New()
	c.write(from, to)
	to.GetObjectKind().SetGroupVersionKind(c.GroupVersionKind)
	to.SetManagedFields(writeOwners(apply.Current(from)))
	return to
}

// Read converts an object of Kubernetes, without the owners of its fields. It returns a violation for
// each value that Portolan cannot hold, with a text of messages. It does not change from.
func (c *Codec) Read(from Object, messages *Messages) (object.Object, apierr.Violations) {
	r := &reader{messages: messages}
	to := c.read(r, from)
	return to, r.violations
}

// The codecs of the kinds that Kubernetes has.
var (
	Namespace     = newCodec[kubev1.NamespaceList](kubev1.SchemeGroupVersion, (*reader).namespace, writeNamespace)
	Node          = newCodec[kubev1.NodeList](kubev1.SchemeGroupVersion, (*reader).node, writeNode)
	Service       = newCodec[kubev1.ServiceList](kubev1.SchemeGroupVersion, (*reader).service, writeService)
	Pod           = newCodec[kubev1.PodList](kubev1.SchemeGroupVersion, (*reader).pod, writePod)
	Endpoints     = newCodec[kubev1.EndpointsList](kubev1.SchemeGroupVersion, (*reader).endpoints, writeEndpoints) //nolint:staticcheck // older clients use the kind
	EndpointSlice = newCodec[discoveryv1.EndpointSliceList](discoveryv1.SchemeGroupVersion, (*reader).endpointSlice, writeEndpointSlice)
	Lease         = newCodec[coordinationv1.LeaseList](coordinationv1.SchemeGroupVersion, (*reader).lease, writeLease)
	Secret        = newCodec[kubev1.SecretList](kubev1.SchemeGroupVersion, (*reader).secret, writeSecret)

	// Event leaves the field source alone, EventWithSource has the reporter there too, and NewEvent has
	// the version of the group events.k8s.io.
	Event           = newCodec[kubev1.EventList](kubev1.SchemeGroupVersion, (*reader).event, writeEvent)
	EventWithSource = newCodec[kubev1.EventList](kubev1.SchemeGroupVersion, (*reader).eventWithSource, writeEventWithSource)
	NewEvent        = newCodec[eventsv1.EventList](eventsv1.SchemeGroupVersion, (*reader).newEvent, writeNewEvent)
)

// newCodec returns the codec of the kind with the message P, the type K of Kubernetes and the type L of
// its lists.
func newCodec[L any, P object.Object, K any, PK interface {
	*K
	Object
}, PL interface {
	*L
	runtime.Object
}](version schema.GroupVersion, read func(*reader, *K) P, write func(P, *K)) *Codec {
	var zero P
	name := string(zero.ProtoReflect().Descriptor().Name())
	kind, _ := kinds.Named(name)
	return &Codec{
		GroupVersionKind: version.WithKind(name), Kind: kind,
		New:     func() Object { return PK(new(K)) },
		NewList: func() runtime.Object { return PL(new(L)) },
		read:    func(r *reader, from Object) object.Object { return read(r, (*K)(from.(PK))) },
		write:   func(from object.Object, to Object) { write(from.(P), (*K)(to.(PK))) },
	}
}
