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

// ownershipChecker checks which service owns each cluster IP and node port. Its hooks are called
// with each commit of the registries' database, each commit of the allocator's disk and each reply
// of the allocator.
type ownershipChecker struct {
	disk *stores.Disk

	mu          sync.Mutex
	log         []*registryv1.Change
	owners      map[string]string          // the UID of the service that has a value, by value
	valuesByUID map[string]map[string]bool // the values of a service, by its UID
	deleted     map[string]bool            // the UIDs of deleted services
	found       []string                   // violations
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

// valuesOf returns the cluster IPs and node ports of a service, which the allocator allocates.
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

// onCommit checks a commit of a registry: no value belongs to two services, and each value is
// allocated to its service.
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

// recordOwner records that a service has a value, starting with a revision.
func (c *ownershipChecker) recordOwner(revision uint64, uid, value string, allocated map[string]allocatorstore.Allocation) {
	if other, ok := c.owners[value]; ok {
		c.addViolation("revision %d gives %s to the service %s, but it belongs to %s", revision, value, uid, other)
	}
	c.owners[value] = uid
	c.valuesByUID[uid][value] = true
	switch a, ok := allocated[value]; {
	case !ok:
		c.addViolation("revision %d gives %s to the service %s, but it is not allocated", revision, value, uid)
	case a.Owner.UID != uid:
		c.addViolation("revision %d gives %s to the service %s, but it is allocated to %s", revision, value, uid, a.Owner.UID)
	}
}

// onApply checks a commit of the allocator: no value is released, or allocated to another service,
// while a service has it.
func (c *ownershipChecker) onApply(before map[pool.Value]allocatorstore.Allocation, writes []allocatorstore.Write) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range writes {
		owner := before[w.Value].Owner.UID
		keepsOwner := w.Released.IsZero() && w.Owner.UID == owner
		if !keepsOwner && c.valuesByUID[owner][w.Value.String()] {
			c.addViolation("the allocator releases or reallocates %s, which the service %s still has", w.Value, owner)
		}
	}
}

// onReply checks a reply of the allocator: a value that it reports as allocated must be on the
// disk, because the allocator may crash next.
func (c *ownershipChecker) onReply(_ string, request, reply any) {
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
				c.addViolation("%s was reported as allocated to the service %s, but it is not on the disk", value, uid)
			}
		}
	}
}
