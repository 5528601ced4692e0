package index

import (
	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/changes"
	"portolan.dev/services/object"
)

// ours reports whether this controller made a slice.
func ours(s *corev1.EndpointSlice) bool {
	switch s.GetMetadata().GetLabels()[object.LabelManagedBy] {
	case object.ManagedByController, object.ManagedByMirroring:
		return true
	default:
		return false
	}
}

// serviceOf returns the key of the service to which a slice or an Endpoints belongs.
func serviceOf(o object.Object) Key {
	if s, ok := o.(*corev1.EndpointSlice); ok {
		return Key{s.GetMetadata().GetNamespace(), s.GetMetadata().GetLabels()[object.LabelServiceName]}
	}
	return KeyOf(o)
}

// write is the state of an object after the controller's own write.
type write struct {
	uid      string
	revision uint64        // newest known version of the object
	object   object.Object // nil if it is deleted
}

// Wrote records a write by the controller. o is the object as the registry stored it. The record is
// used until the stream has passed the revision of the write.
func (x *Index) Wrote(o object.Object) {
	x.mu.Lock()
	defer x.mu.Unlock()
	meta := o.GetMetadata()
	if meta.GetResourceVersion() > max(x.revision, x.known(o).revision) {
		x.note(o, write{meta.GetUid(), meta.GetResourceVersion(), o})
	}
}

// Deleted records that an object does not exist any more: the controller has deleted it, or the
// registry has returned NotFound for it. The record is used until the stream has delivered the
// deletion.
func (x *Index) Deleted(o object.Object) {
	x.mu.Lock()
	defer x.mu.Unlock()
	known := x.known(o)
	if known.uid == o.GetMetadata().GetUid() { // otherwise the stream was faster
		x.note(o, write{uid: known.uid, revision: known.revision})
	}
}

func (x *Index) note(o object.Object, w write) {
	service := serviceOf(o)
	if x.written[service] == nil {
		x.written[service] = map[object.Key]write{}
	}
	x.written[service][object.KeyOf(o)] = w
}

// known returns the newest version of an object in the index.
func (x *Index) known(o object.Object) write {
	service, key := serviceOf(o), object.KeyOf(o)
	if w, noted := x.written[service][key]; noted {
		return w
	}
	streamed := x.streamed(service, key)
	meta := streamed.GetMetadata()
	return write{meta.GetUid(), meta.GetResourceVersion(), streamed}
}

// streamed returns the slice or Endpoints with that key as the stream last delivered it.
func (x *Index) streamed(service Key, key object.Key) object.Object {
	if key.Kind == "EndpointSlice" {
		return x.slices[service][key.Name]
	}
	return x.endpoints[service]
}

// isEcho reports whether a change only repeats one of the controller's own writes.
func (x *Index) isEcho(c *changes.Change) bool {
	o := c.New
	if o == nil {
		o = c.Old
	}
	w, noted := x.written[serviceOf(o)][c.Key]
	switch {
	case !noted:
		return false
	case w.object == nil:
		return w.uid == o.GetMetadata().GetUid()
	default:
		return c.Revision <= w.revision
	}
}

// forgetPassed drops the records that the stream has passed. It visits all records, because there
// are only as many as writes on their way through the stream.
func (x *Index) forgetPassed() {
	for service, notes := range x.written {
		for key, w := range notes {
			if w.revision > x.revision {
				continue
			}
			if w.object == nil && x.streamed(service, key).GetMetadata().GetUid() == w.uid {
				continue // the stream still has the object
			}
			delete(notes, key)
		}
		if len(notes) == 0 {
			delete(x.written, service)
		}
	}
}

// applySlice applies a streamed change of a slice. It marks the service dirty if this controller
// made the slice.
func (x *Index) applySlice(c *changes.Change, dirty map[Key]bool) {
	before, after := as[*corev1.EndpointSlice](c.Old), as[*corev1.EndpointSlice](c.New)
	echo := x.isEcho(c)
	for _, s := range []*corev1.EndpointSlice{before, after} {
		if s != nil && ours(s) && !echo {
			dirty[serviceOf(s)] = true
		}
	}
	if before != nil {
		x.dropSlice(before)
	}
	if after != nil {
		x.putSlice(after)
	}
}

func (x *Index) putSlice(s *corev1.EndpointSlice) {
	service := serviceOf(s)
	if x.slices[service] == nil {
		x.slices[service] = map[string]*corev1.EndpointSlice{}
	}
	x.slices[service][s.GetMetadata().GetName()] = s
}

func (x *Index) dropSlice(s *corev1.EndpointSlice) {
	service := serviceOf(s)
	delete(x.slices[service], s.GetMetadata().GetName())
	if len(x.slices[service]) == 0 {
		delete(x.slices, service)
	}
}

// applyEndpoints applies a streamed change of an Endpoints.
func (x *Index) applyEndpoints(key Key, c *changes.Change, dirty map[Key]bool) {
	if !x.isEcho(c) {
		dirty[key] = true
	}
	if after := as[*corev1.Endpoints](c.New); after != nil {
		x.endpoints[key] = after
	} else {
		delete(x.endpoints, key)
	}
}
