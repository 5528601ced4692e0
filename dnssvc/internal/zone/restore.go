package zone

import (
	"errors"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
)

// Restore fills an empty table with the objects of an earlier revision. Their names are answered,
// but the view is not complete, because other objects may have been created since.
func (t *Table) Restore(objects []object.Object, revision uint64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.current.Load(); s.Synced || t.restored {
		return errors.New("the table is not empty")
	}
	changes := make([]Change, len(objects))
	for i, o := range objects {
		changes[i] = Change{Object: o}
	}
	if err := t.apply(changes, revision, false); err != nil {
		t.clear()
		return err
	}
	t.restored = true
	return nil
}

// TrustRestored makes a restored view complete: names that it lacks do not exist. It does nothing
// after Apply.
func (t *Table) TrustRestored() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.restored {
		next := *t.current.Load()
		next.Synced = true
		t.current.Store(&next)
	}
}

// DropRestored empties a restored table. It does nothing after Apply.
func (t *Table) DropRestored() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.restored {
		t.clear()
	}
}

// deletionsOfMissing returns a deletion for each object of the table that is not among the changes.
func (t *Table) deletionsOfMissing(changes []Change) []Change {
	have := make(map[object.Key]bool, len(changes))
	for _, c := range changes {
		have[object.KeyOf(c.Object)] = !c.Deleted
	}
	var gone []Change
	for o := range t.contents().objects() {
		if !have[object.KeyOf(o)] {
			gone = append(gone, Change{Object: o, Deleted: true})
		}
	}
	return gone
}

// Objects yields objects from which Restore makes the same names. They hold only the fields that
// names derive from. Objects also returns their revision.
func (t *Table) Objects() (objects iter.Seq[object.Object], revision uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.contents().objects(), t.current.Load().Revision
}

// contents is the content of a table at one time. Its parts are never changed, only replaced.
type contents struct {
	services   []*service
	namespaces []string
	pods       map[key][]netip.Addr
}

func (t *Table) contents() contents {
	return contents{
		services:   slices.Collect(maps.Values(t.services)),
		namespaces: slices.Collect(maps.Keys(t.namespaces)),
		pods:       maps.Clone(t.pods),
	}
}

func (c contents) objects() iter.Seq[object.Object] {
	return func(yield func(object.Object) bool) {
		for _, name := range c.namespaces {
			if !yield(&corev1.Namespace{Metadata: &corev1.ObjectMeta{Name: name}}) {
				return
			}
		}
		for _, s := range c.services {
			if s.spec != nil && !yield(s.object()) {
				return
			}
			for _, sl := range s.slices {
				if !yield(sl.object(s.key)) {
					return
				}
			}
		}
		for k, addrs := range c.pods {
			if !yield(&corev1.Pod{Metadata: k.meta(), Status: &corev1.PodStatus{PodIps: texts(addrs)}}) {
				return
			}
		}
	}
}

func (k key) meta() *corev1.ObjectMeta {
	return &corev1.ObjectMeta{Namespace: k.namespace, Name: k.name}
}

func texts(addrs []netip.Addr) []string {
	var out []string
	for _, a := range addrs {
		out = append(out, a.String())
	}
	return out
}

// object is the inverse of convertService.
func (s *service) object() *corev1.Service {
	o := &corev1.Service{Metadata: s.meta(), Spec: &corev1.ServiceSpec{ClusterIps: texts(s.spec.addrs)}}
	switch {
	case s.spec.external != "":
		o.Spec.Type, o.Spec.ExternalName = corev1.ServiceType_SERVICE_TYPE_EXTERNAL_NAME, s.spec.external
	case s.spec.headless:
		o.Spec.ClusterIps = []string{"None"}
	}
	for _, p := range s.spec.ports {
		o.Spec.Ports = append(o.Spec.Ports, &corev1.ServicePort{Name: p.name, Protocol: p.protocol(), Port: int32(p.number)})
	}
	return o
}

func (p port) protocol() corev1.Protocol {
	return corev1.Protocol(corev1.Protocol_value["PROTOCOL_"+strings.ToUpper(p.proto)])
}

// object is the inverse of convertSlice, except for endpoints that are not ready, of which a slice
// holds only the number.
func (s *slice) object(of key) *corev1.EndpointSlice {
	o := &corev1.EndpointSlice{Metadata: key{of.namespace, s.name}.meta()}
	o.Metadata.Labels = map[string]string{object.LabelServiceName: of.name}
	for _, p := range s.ports {
		number := int32(p.number)
		o.Ports = append(o.Ports, &corev1.EndpointPort{Name: &p.name, Protocol: p.protocol(), Port: &number})
	}
	yes, no := true, false
	for e := range s.endpoints() {
		out := &corev1.Endpoint{Addresses: []string{e.addr.String()}}
		if e.hostname != "" {
			out.Hostname = &e.hostname
		}
		if e.weight != unweighted {
			weight := uint32(e.weight)
			out.Weight = &weight
		}
		if e.notServing {
			out.Conditions = &corev1.EndpointConditions{Ready: &yes, Serving: &no}
		}
		o.Endpoints = append(o.Endpoints, out)
	}
	for range s.notReady {
		o.Endpoints = append(o.Endpoints, &corev1.Endpoint{Conditions: &corev1.EndpointConditions{Ready: &no}})
	}
	return o
}
