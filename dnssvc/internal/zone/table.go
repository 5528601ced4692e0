package zone

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kit/guard"
	"portolan.dev/services/object"
)

// Change is a changed or deleted object.
type Change struct {
	Object  object.Object // if Deleted is true, only kind, namespace and name are used
	Deleted bool
}

// Kinds returns the kinds of objects that a table of this configuration needs.
func (c Config) Kinds() []string {
	kinds := []string{"Namespace", "Service", "EndpointSlice"}
	if c.Pods == PodsVerified {
		kinds = append(kinds, "Pod")
	}
	return kinds
}

// Table holds the objects from which names derive. It is safe for concurrent use. Snapshots are
// read without a lock.
type Table struct {
	cfg          Config
	zones        []Zone
	forwardZones int            // number of zones for services, which come first
	reverse      map[string]int // index of a reverse zone by its name
	current      atomic.Pointer[Snapshot]

	mu         sync.Mutex // guards the fields below
	gen        uint64
	undo       []replaced // memory of the edits
	services   map[key]*service
	failed     failedNames
	sliceOwner map[key]string // service name by slice
	namespaces map[string]bool
	pods       map[key][]netip.Addr
	podNames   map[key]int // number of pods by namespace and dashed address
	restored   bool        // the objects come from Restore
}

// New returns a table without objects. Its snapshot has the names that every zone has and is not
// synced.
func New(cfg Config) (*Table, error) {
	zones, err := cfg.zones()
	if err != nil {
		return nil, err
	}
	if cfg.Pods == "" {
		cfg.Pods = PodsDisabled
	}
	t := &Table{cfg: cfg, zones: zones, forwardZones: len(cfg.Zones), reverse: map[string]int{}}
	for i, z := range zones {
		if z.Reverse {
			t.reverse[z.Name] = i
		}
	}
	t.clear()
	return t, nil
}

// clear removes all objects from the table.
func (t *Table) clear() {
	t.services, t.sliceOwner, t.namespaces = map[key]*service{}, map[key]string{}, map[string]bool{}
	t.failed = failedNames{published: map[key]*service{}}
	t.pods, t.podNames, t.restored = map[key][]netip.Addr{}, map[key]int{}, false
	e := &edit{gen: t.nextGen()}
	for i := range t.zones {
		t.addZoneNames(e, uint16(i))
	}
	t.current.Store(&Snapshot{Zones: t.zones, TTL: t.cfg.TTL, pods: t.cfg.Pods, tree: e.tree})
}

// addZoneNames adds the names that every zone has.
func (t *Table) addZoneNames(e *edit, zone uint16) {
	z := t.zones[zone]
	e.put(newNode(z.Name, zone, t.apexSets(nil, nil)))
	if z.Reverse {
		return
	}
	version := string([]byte{byte(len(schemaVersion))}) + schemaVersion
	e.set(label("dns-version")+z.Name, zone, []Set{{Type: dns.TypeTXT, Count: 1, Data: version}})
	e.set(PrimaryLabels+z.Name, zone, addressSets(t.cfg.Nameservers, nil))
	e.set(svcLabel+z.Name, zone, nil)
	e.set(podLabel+z.Name, zone, nil)
}

func (t *Table) nextGen() uint64 {
	t.gen++
	return t.gen
}

// Snapshot returns the current names.
func (t *Table) Snapshot() *Snapshot { return t.current.Load() }

// Apply applies changes up to a revision of the log. The first call completes the view: it also
// removes restored objects that are not among its changes.
func (t *Table) Apply(changes []Change, revision uint64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.restored {
		changes, t.restored = slices.Concat(changes, t.deletionsOfMissing(changes)), false
	}
	return t.apply(changes, revision, true)
}

// apply publishes changes. synced is true if they complete the view.
func (t *Table) apply(changes []Change, revision uint64, synced bool) error {
	last := t.current.Load()
	e := &edit{tree: last.tree, gen: t.nextGen(), undo: t.undo}
	defer func() { t.undo = e.release() }()
	touched := map[key]*service{} // as they were before the batch
	for i := range changes {
		c := &changes[i]
		if _, err := t.guarded(e, stepObject, guard.Object(object.KeyOf(c.Object)), func() error { return t.applyChange(e, c, touched) }); err != nil {
			return err
		}
	}
	t.failed.addDue(touched, time.Now())
	for k, before := range touched {
		t.publishNames(e, k, before)
	}
	next := *last
	next.tree, next.Revision, next.Synced = e.tree, revision, synced
	if e.root != last.tree.root || !last.Synced {
		next.Serial = uint32(revision) // serial numbers wrap around (RFC 1982)
	}
	t.current.Store(&next)
	return nil
}

// applyChange applies one change to the objects. It puts the previous state of changed services
// into touched, so that their names can be published once per batch. All other names are published
// at once.
func (t *Table) applyChange(e *edit, c *Change, touched map[key]*service) error {
	meta := c.Object.GetMetadata()
	k := key{intern(meta.GetNamespace()), strings.Clone(meta.GetName())}
	switch o := c.Object.(type) {
	case *corev1.Service:
		var spec *serviceSpec
		if !c.Deleted {
			spec = convertService(o)
		}
		t.mutableService(k, touched).spec = spec
		t.removeIfEmpty(k)
	case *corev1.EndpointSlice:
		t.applySlice(k, o, c.Deleted, touched)
	case *corev1.Namespace:
		t.applyNamespace(e, k.name, !c.Deleted)
	case *corev1.Pod:
		var addrs []netip.Addr
		if !c.Deleted {
			addrs = podAddrs(o)
		}
		t.applyPod(e, k, addrs)
	default:
		return fmt.Errorf("names do not come from a %s", object.KindOf(c.Object))
	}
	return nil
}

// mutableService returns the service in a form that may be changed in this batch.
func (t *Table) mutableService(k key, touched map[key]*service) *service {
	if _, done := touched[k]; done {
		if s := t.services[k]; s != nil {
			return s
		}
	}
	before := t.services[k]
	s := &service{key: k}
	if before != nil {
		s = before.clone()
	}
	if _, done := touched[k]; !done {
		touched[k] = t.failed.publishedOr(k, before)
	}
	t.services[k] = s
	return s
}

func (t *Table) removeIfEmpty(k key) {
	if s := t.services[k]; s != nil && s.spec == nil && len(s.slices) == 0 {
		delete(t.services, k)
	}
}

func (t *Table) applySlice(k key, o *corev1.EndpointSlice, deleted bool, touched map[key]*service) {
	var sl *slice
	owner := ""
	if !deleted {
		sl, owner = convertSlice(o), strings.Clone(object.ServiceOf(o).Name)
	}
	if had, ok := t.sliceOwner[k]; ok && (sl == nil || had != owner) {
		from := key{k.namespace, had}
		t.mutableService(from, touched).drop(k.name)
		t.removeIfEmpty(from)
		delete(t.sliceOwner, k)
	}
	if sl == nil || owner == "" {
		return
	}
	t.mutableService(key{k.namespace, owner}, touched).put(sl)
	t.sliceOwner[k] = owner
}

func (t *Table) applyNamespace(e *edit, name string, exists bool) {
	if t.namespaces[name] == exists {
		return
	}
	var labels []string
	labels = append(labels, svcLabel)
	if t.cfg.Pods != PodsDisabled {
		labels = append(labels, podLabel)
	}
	for i := range t.forwardZones {
		for _, below := range labels {
			full := label(name) + below + t.zones[i].Name
			if exists {
				e.set(full, uint16(i), nil)
			} else {
				e.remove(full)
			}
		}
	}
	if exists {
		t.namespaces[name] = true
	} else {
		delete(t.namespaces, name)
	}
}

// applyPod counts the pods of an address, because pods in their node's network share its address. The counts change
// once the names have changed, so that a panic leaves both as they were.
func (t *Table) applyPod(e *edit, k key, addrs []netip.Addr) {
	if t.cfg.Pods != PodsVerified {
		return
	}
	had := t.pods[k]
	each := func(do func(at key, addr netip.Addr, by int)) {
		for _, addr := range addrs {
			if !slices.Contains(had, addr) {
				do(key{k.namespace, Dashed(addr)}, addr, 1)
			}
		}
		for _, addr := range had {
			if !slices.Contains(addrs, addr) {
				do(key{k.namespace, Dashed(addr)}, addr, -1)
			}
		}
	}
	each(func(at key, addr netip.Addr, by int) { t.publishPods(e, at, addr, t.podNames[at]+by) })
	each(func(at key, _ netip.Addr, by int) {
		if t.podNames[at] += by; t.podNames[at] == 0 {
			delete(t.podNames, at)
		}
	})
	if len(addrs) == 0 {
		delete(t.pods, k)
	} else {
		t.pods[k] = addrs
	}
}

// publishPods publishes the name of the pods of an address, of which there are count.
func (t *Table) publishPods(e *edit, at key, addr netip.Addr, count int) {
	for i := range t.forwardZones {
		full := label(at.name) + label(at.namespace) + podLabel + t.zones[i].Name
		switch count {
		case 0:
			e.remove(full)
		case 1:
			e.set(full, uint16(i), addressSets([]netip.Addr{addr}, nil))
		}
	}
}
