package index

import (
	corev1 "portolan.dev/proto/portolan/core/v1"
	"portolan.dev/services/object"

	"portolan.dev/endpointctl/packing"
)

// ours says whether a slice is made by this controller.
func ours(s *corev1.EndpointSlice) bool {
	switch s.GetMetadata().GetLabels()[packing.LabelManagedBy] {
	case packing.ManagedByController, packing.ManagedByMirroring:
		return true
	default:
		return false
	}
}

// serviceOf returns the service of a slice.
func serviceOf(s *corev1.EndpointSlice) Key {
	return Key{s.GetMetadata().GetNamespace(), s.GetMetadata().GetLabels()[packing.LabelServiceName]}
}

// streamSlice takes in a slice from the stream. It concerns its service if it is
// one of ours and not what we know already.
func (x *Index) streamSlice(old, s *corev1.EndpointSlice, dirty map[Key]bool) {
	known := old
	if s != nil {
		known = s
	}
	if x.isEcho(x.slice(known), known, s == nil) {
		return
	}
	for _, o := range []*corev1.EndpointSlice{old, s} {
		if o != nil && ours(o) {
			dirty[serviceOf(o)] = true
		}
	}
	if old != nil {
		x.dropSlice(old)
	}
	if s != nil {
		x.putSlice(s)
	}
}

// streamEndpoints takes in an Endpoints from the stream.
func (x *Index) streamEndpoints(key Key, old, e *corev1.Endpoints, dirty map[Key]bool) {
	known := old
	if e != nil {
		known = e
	}
	if x.isEcho(x.endpoints[key], known, e == nil) {
		return
	}
	dirty[key] = true
	if e == nil {
		delete(x.endpoints, key)
	} else {
		x.endpoints[key] = e
	}
}

// isEcho says whether the stream tells what is known already: a version that is
// not newer than the one here, or something of what the controller has deleted.
func (x *Index) isEcho(have object.Object, o object.Object, deleted bool) bool {
	uid := o.GetMetadata().GetUid()
	if x.gone[uid] {
		if deleted {
			delete(x.gone, uid)
		}
		return true
	}
	if deleted || isNil(have) {
		return false
	}
	return have.GetMetadata().GetUid() == uid && have.GetMetadata().GetResourceVersion() >= o.GetMetadata().GetResourceVersion()
}

// isNil also sees through a nil pointer to an object.
func isNil(o object.Object) bool { return o == nil || o.GetMetadata() == nil }

// slice returns what is known under the name of a slice.
func (x *Index) slice(s *corev1.EndpointSlice) *corev1.EndpointSlice {
	return x.slices[serviceOf(s)][s.GetMetadata().GetName()]
}

func (x *Index) putSlice(s *corev1.EndpointSlice) {
	key := serviceOf(s)
	if x.slices[key] == nil {
		x.slices[key] = map[string]*corev1.EndpointSlice{}
	}
	x.slices[key][s.GetMetadata().GetName()] = s
}

func (x *Index) dropSlice(s *corev1.EndpointSlice) {
	key := serviceOf(s)
	delete(x.slices[key], s.GetMetadata().GetName())
	if len(x.slices[key]) == 0 {
		delete(x.slices, key)
	}
}

// Wrote takes in what the controller has written, as the registry stored it.
func (x *Index) Wrote(o object.Object) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch o := o.(type) {
	case *corev1.EndpointSlice:
		if !x.isEcho(x.slice(o), o, false) {
			x.putSlice(o)
		}
	case *corev1.Endpoints:
		if !x.isEcho(x.endpoints[KeyOf(o)], o, false) {
			x.endpoints[KeyOf(o)] = o
		}
	}
}

// Deleted takes in what the controller has deleted.
func (x *Index) Deleted(o object.Object) {
	x.mu.Lock()
	defer x.mu.Unlock()
	uid := o.GetMetadata().GetUid()
	switch o := o.(type) {
	case *corev1.EndpointSlice:
		if x.slice(o).GetMetadata().GetUid() != uid {
			return // the stream was faster
		}
		x.dropSlice(o)
	case *corev1.Endpoints:
		if x.endpoints[KeyOf(o)].GetMetadata().GetUid() != uid {
			return
		}
		delete(x.endpoints, KeyOf(o))
	}
	x.gone[uid] = true
}
