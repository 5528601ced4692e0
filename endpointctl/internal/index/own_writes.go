package index

import (
	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/changes"
	"portolan.dev/services/object"
)

// isManaged reports whether this controller made a slice.
func isManaged(s *corev1.EndpointSlice) bool {
	switch s.GetMetadata().GetLabels()[object.LabelManagedBy] {
	case object.ManagedByController, object.ManagedByMirroring:
		return true
	default:
		return false
	}
}

// serviceOf returns the name of the service to which a slice or an Endpoints belongs.
func serviceOf(o object.Object) object.Name {
	if s, ok := o.(*corev1.EndpointSlice); ok {
		return object.ServiceOf(s)
	}
	return object.NameOf(o)
}

// ownWrite is the state of an object after the controller's own write.
type ownWrite struct {
	uid      string
	revision uint64        // newest known version of the object
	object   object.Object // nil if it is deleted
}

// RecordWrite records a write by the controller. o is the object as the registry stored it. The
// record is used until the stream has passed the revision of the write.
func (x *Index) RecordWrite(o object.Object) {
	x.mu.Lock()
	defer x.mu.Unlock()
	meta := o.GetMetadata()
	if meta.GetResourceVersion() > max(x.revision, x.latest(o).revision) {
		x.recordWrite(o, ownWrite{meta.GetUid(), meta.GetResourceVersion(), o})
	}
}

// RecordDeletion records that an object does not exist any more: the controller has deleted it, or
// the registry has returned NotFound for it. The record is used until the stream has delivered the
// deletion.
func (x *Index) RecordDeletion(o object.Object) {
	x.mu.Lock()
	defer x.mu.Unlock()
	known := x.latest(o)
	if known.uid == o.GetMetadata().GetUid() { // otherwise the stream was faster
		x.recordWrite(o, ownWrite{uid: known.uid, revision: known.revision})
	}
}

func (x *Index) recordWrite(o object.Object, w ownWrite) {
	service := serviceOf(o)
	if x.ownWrites[service] == nil {
		x.ownWrites[service] = map[object.Key]ownWrite{}
	}
	x.ownWrites[service][object.KeyOf(o)] = w
}

// latest returns the newest version of an object in the index.
func (x *Index) latest(o object.Object) ownWrite {
	service, key := serviceOf(o), object.KeyOf(o)
	if w, noted := x.ownWrites[service][key]; noted {
		return w
	}
	streamed := x.fromStream(service, key)
	meta := streamed.GetMetadata()
	return ownWrite{meta.GetUid(), meta.GetResourceVersion(), streamed}
}

// fromStream returns the slice or Endpoints with that key as the stream last delivered it.
func (x *Index) fromStream(service object.Name, key object.Key) object.Object {
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
	w, noted := x.ownWrites[serviceOf(o)][c.Key]
	switch {
	case !noted:
		return false
	case w.object == nil:
		return w.uid == o.GetMetadata().GetUid()
	default:
		return c.Revision <= w.revision
	}
}

// dropPassed drops the records that the stream has passed. It visits all records, because there
// are only as many as writes on their way through the stream.
func (x *Index) dropPassed() {
	for service, notes := range x.ownWrites {
		for key, w := range notes {
			if w.revision > x.revision {
				continue
			}
			if w.object == nil && x.fromStream(service, key).GetMetadata().GetUid() == w.uid {
				continue // the stream still has the object
			}
			delete(notes, key)
		}
		if len(notes) == 0 {
			delete(x.ownWrites, service)
		}
	}
}

// applySlice applies a streamed change of a slice. It adds the service to affected if this
// controller made the slice.
func (x *Index) applySlice(c *changes.Change, affected Affected) {
	before, after := as[*corev1.EndpointSlice](c.Old), as[*corev1.EndpointSlice](c.New)
	echo := x.isEcho(c)
	var counted object.Name
	for _, s := range []*corev1.EndpointSlice{before, after} {
		if s != nil && isManaged(s) && !echo && serviceOf(s) != counted {
			counted = serviceOf(s)
			affected[counted]++
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
func (x *Index) applyEndpoints(key object.Name, c *changes.Change, affected Affected) {
	if !x.isEcho(c) {
		affected[key]++
	}
	if after := as[*corev1.Endpoints](c.New); after != nil {
		x.endpoints[key] = after
	} else {
		delete(x.endpoints, key)
	}
}
