package sim

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	"portolan.dev/allocator/pool"
	allocatorstore "portolan.dev/allocator/store"
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
type ownershipChecker struct {
	disk *stores.Disk

	mu          sync.Mutex
	log         []*registryv1.Change
	owners      map[string]string          // UID of the service that has a value
	valuesByUID map[string]map[string]bool // that a service has, by its UID
	deleted     map[string]bool            // UIDs
	found       []string
}

func newOwnershipChecker(disk *stores.Disk) *ownershipChecker {
	return &ownershipChecker{disk: disk, owners: map[string]string{}, valuesByUID: map[string]map[string]bool{}, deleted: map[string]bool{}}
}

func (c *ownershipChecker) addViolation(format string, args ...any) {
	c.found = append(c.found, fmt.Sprintf(format, args...))
}

func (c *ownershipChecker) violations() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.found)
}

// changes returns the log of the registries.
func (c *ownershipChecker) changes() []*registryv1.Change {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.log)
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
func (c *ownershipChecker) onCommit(records []store.Record) {
	allocated := c.disk.Allocations()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range records {
		change, err := changelog.Change(r)
		if err != nil {
			c.addViolation("revision %d cannot be read: %v", r.Revision, err)
			continue
		}
		c.log = append(c.log, change)
		svc, ok := object.Unwrap(change.GetObject()).(*corev1.Service)
		if !ok {
			continue
		}
		uid := svc.GetMetadata().GetUid()
		maps.DeleteFunc(c.owners, func(_, owner string) bool { return owner == uid })
		if delete(c.valuesByUID, uid); r.Type == registryv1.ChangeType_CHANGE_TYPE_DELETE {
			c.deleted[uid] = true
			continue
		}
		c.valuesByUID[uid] = map[string]bool{}
		for _, value := range valuesOf(svc) {
			c.recordOwner(r.Revision, uid, value, allocated)
		}
	}
}

// take records that a service has a value from a revision on.
func (c *ownershipChecker) recordOwner(revision uint64, uid, value string, allocated map[string]allocatorstore.Allocation) {
	if other, taken := c.owners[value]; taken {
		c.addViolation("revision %d gives %s to the service %s, and %s has it", revision, value, uid, other)
	}
	c.owners[value] = uid
	c.valuesByUID[uid][value] = true
	switch h, ok := allocated[value]; {
	case !ok:
		c.addViolation("revision %d gives %s to the service %s, and the allocator does not hold it", revision, value, uid)
	case h.Owner.UID != uid:
		c.addViolation("revision %d gives %s to the service %s, and the allocator holds it for %s", revision, value, uid, h.Owner.UID)
	}
}

// applied checks a commit of the allocator: nothing is taken from a service that has it.
func (c *ownershipChecker) onApply(before map[pool.Value]allocatorstore.Allocation, writes []allocatorstore.Write) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range writes {
		previousOwner := before[p.Value].Owner.UID
		keeps := p.Released.IsZero() && p.Owner.UID == previousOwner
		if !keeps && c.valuesByUID[previousOwner][p.Value.String()] {
			c.addViolation("the allocator takes %s from the service %s, which has it", p.Value, previousOwner)
		}
	}
}

// answered checks an answer of the allocator: a value that it reports as allocated must survive a
// crash at this moment.
func (c *ownershipChecker) onAnswer(_ string, request, reply any) {
	req, ok := request.(*allocatorv1.AllocateRequest)
	resp, _ := reply.(*allocatorv1.AllocateResponse)
	if !ok || req.GetDryRun() {
		return
	}
	allocated := c.disk.Allocations()
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, result := range resp.GetResults() {
		uid := req.GetSets()[i].GetOwner().GetUid()
		for _, value := range result.GetValues() {
			if allocated[value].Owner.UID != uid && !c.deleted[uid] {
				c.addViolation("%s was allocated to the service %s, and a crash would forget it", value, uid)
			}
		}
	}
}
