package sim

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	"portolan.dev/allocator/pool"
	holdings "portolan.dev/allocator/store"
	allocatorv1 "portolan.dev/api/allocator/v1"
	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/faults/sim/stores"
	"portolan.dev/registry/changelog"
	"portolan.dev/registry/store"
	"portolan.dev/services/object"
)

// accountBook keeps the account of values. It receives each commit of the registries' database and
// of the allocator's disk when it happens, and each answer of the allocator, and records
// violations.
type accountBook struct {
	disk *stores.Disk

	mu      sync.Mutex
	log     []*registryv1.Change
	owners  map[string]string          // UID of the service that has a value
	values  map[string]map[string]bool // that a service has, by its UID
	deleted map[string]bool            // UIDs
	broken  []string
}

func newAccountBook(disk *stores.Disk) *accountBook {
	return &accountBook{disk: disk, owners: map[string]string{}, values: map[string]map[string]bool{}, deleted: map[string]bool{}}
}

func (l *accountBook) violate(format string, args ...any) {
	l.broken = append(l.broken, fmt.Sprintf(format, args...))
}

func (l *accountBook) violations() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.broken)
}

// changes returns the log of the registries.
func (l *accountBook) changes() []*registryv1.Change {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.log)
}

// valuesOf returns the values of a service that the allocator gives out.
func valuesOf(svc *corev1.Service) []string {
	var all []string
	if object.NeedsClusterIP(svc) {
		all = append(all, svc.GetSpec().GetClusterIps()...)
	}
	for _, p := range svc.GetSpec().GetPorts() {
		if p.GetNodePort() > 0 {
			all = append(all, strconv.Itoa(int(p.GetNodePort())))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// committed checks a commit of a registry: no value of a service is another one's, and the
// allocator holds each for it.
func (l *accountBook) committed(records []store.Record) {
	held := l.disk.Holdings()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range records {
		change, err := changelog.Change(r)
		if err != nil {
			l.violate("revision %d cannot be read: %v", r.Revision, err)
			continue
		}
		l.log = append(l.log, change)
		svc, ok := object.Unwrap(change.GetObject()).(*corev1.Service)
		if !ok {
			continue
		}
		uid := svc.GetMetadata().GetUid()
		maps.DeleteFunc(l.owners, func(_, owner string) bool { return owner == uid })
		if delete(l.values, uid); r.Type == registryv1.ChangeType_CHANGE_TYPE_DELETE {
			l.deleted[uid] = true
			continue
		}
		l.values[uid] = map[string]bool{}
		for _, value := range valuesOf(svc) {
			l.take(r.Revision, uid, value, held)
		}
	}
}

// take records that a service has a value from a revision on.
func (l *accountBook) take(revision uint64, uid, value string, held map[string]holdings.Allocation) {
	if other, taken := l.owners[value]; taken {
		l.violate("revision %d gives %s to the service %s, and %s has it", revision, value, uid, other)
	}
	l.owners[value] = uid
	l.values[uid][value] = true
	switch h, ok := held[value]; {
	case !ok:
		l.violate("revision %d gives %s to the service %s, and the allocator does not hold it", revision, value, uid)
	case h.Owner.UID != uid:
		l.violate("revision %d gives %s to the service %s, and the allocator holds it for %s", revision, value, uid, h.Owner.UID)
	}
}

// applied checks a commit of the allocator: nothing is taken from a service that has it.
func (l *accountBook) applied(before map[pool.Value]holdings.Allocation, puts []holdings.Write) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range puts {
		had := before[p.Value].Owner.UID
		keeps := p.Released.IsZero() && p.Owner.UID == had
		if !keeps && l.values[had][p.Value.String()] {
			l.violate("the allocator takes %s from the service %s, which has it", p.Value, had)
		}
	}
}

// answered checks an answer of the allocator: a value that it reports as allocated must survive a
// crash at this moment.
func (l *accountBook) answered(_ string, request, reply any) {
	asked, ok := request.(*allocatorv1.AllocateRequest)
	answer, _ := reply.(*allocatorv1.AllocateResponse)
	if !ok || asked.GetDryRun() {
		return
	}
	held := l.disk.Holdings()
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, result := range answer.GetResults() {
		uid := asked.GetSets()[i].GetOwner().GetUid()
		for _, value := range result.GetValues() {
			if held[value].Owner.UID != uid && !l.deleted[uid] {
				l.violate("%s was allocated to the service %s, and a crash would forget it", value, uid)
			}
		}
	}
}
