package convert

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

// Read converts an object of Kubernetes, without the owners of its fields. The error lists all values that Portolan cannot hold.
func (c *Codec) Read(from Object) (object.Object, error) {
	r := &reader{}
	to := c.read(r, from)
	if len(r.violations) > 0 {
		return nil, apierr.Invalid(c.Kind.Name, from.GetName(), r.violations)
	}
	return to, nil
}

// All returns the codecs of all kinds, each with the preferred version of Kubernetes' API first.
func All() []*Codec { return all }

var all = []*Codec{
	newCodec[kubev1.NamespaceList](kubev1.SchemeGroupVersion, (*reader).namespace, writeNamespace),
	newCodec[kubev1.NodeList](kubev1.SchemeGroupVersion, (*reader).node, writeNode),
	newCodec[kubev1.ServiceList](kubev1.SchemeGroupVersion, (*reader).service, writeService),
	newCodec[kubev1.PodList](kubev1.SchemeGroupVersion, (*reader).pod, writePod),
	newCodec[kubev1.EndpointsList](kubev1.SchemeGroupVersion, (*reader).endpoints, writeEndpoints), //nolint:staticcheck // older clients use the kind
	newCodec[kubev1.EventList](kubev1.SchemeGroupVersion, (*reader).event, writeEvent),
	newCodec[discoveryv1.EndpointSliceList](discoveryv1.SchemeGroupVersion, (*reader).endpointSlice, writeEndpointSlice),
	newCodec[coordinationv1.LeaseList](coordinationv1.SchemeGroupVersion, (*reader).lease, writeLease),
	newCodec[eventsv1.EventList](eventsv1.SchemeGroupVersion, (*reader).newEvent, writeNewEvent),
}

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
