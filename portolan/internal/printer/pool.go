package printer

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	allocatorv1 "portolan.dev/api/allocator/v1"

	"portolan.dev/allocator/pool"
)

// poolUses are the names of uses, in the order of the contract.
var poolUses = []struct {
	use  allocatorv1.Use
	name string
}{
	{allocatorv1.Use_USE_CLUSTER_IP, "cluster-ip"},
	{allocatorv1.Use_USE_NODE_PORT, "node-port"},
	{allocatorv1.Use_USE_LOAD_BALANCER_IP, "load-balancer-ip"},
	{allocatorv1.Use_USE_POD_IP, "pod-ip"},
}

// PoolUses returns the names of all uses of pools.
func PoolUses() []string {
	names := make([]string, len(poolUses))
	for i, u := range poolUses {
		names[i] = u.name
	}
	return names
}

// PoolUse returns the use with a name, and whether there is one.
func PoolUse(name string) (allocatorv1.Use, bool) {
	for _, u := range poolUses {
		if u.name == name {
			return u.use, true
		}
	}
	return allocatorv1.Use_USE_UNSPECIFIED, false
}

// useName returns the name of a use, and its number if this program does not know it.
func useName(use allocatorv1.Use) string {
	for _, u := range poolUses {
		if u.use == use {
			return u.name
		}
	}
	return fmt.Sprint("use ", int32(use))
}

// PoolState returns the name of a pool's state.
func PoolState(state allocatorv1.PoolState) string {
	return strings.ToLower(strings.TrimPrefix(state.String(), "POOL_STATE_"))
}

// stateMeanings explains the states of pools.
var stateMeanings = map[allocatorv1.PoolState]string{
	allocatorv1.PoolState_POOL_STATE_ACTIVE:   "values are allocated",
	allocatorv1.PoolState_POOL_STATE_DRAINING: "only values that are asked for are allocated",
	allocatorv1.PoolState_POOL_STATE_RETIRED:  "no values are allocated",
}

// Pools prints pools, one per line. The bands are in the form used/size. The wide form adds the
// number of values.
func Pools(w io.Writer, pools []*allocatorv1.Pool, wide bool) error {
	out := tabwriter.NewWriter(w, 0, 8, 3, ' ', 0)
	header := "NAME\tUSE\tRANGE\tSTATE\tUSED\tSTATIC\tDYNAMIC\tAT-HAND\tRESTING"
	if wide {
		header += "\tVALUES\tFREE"
	}
	_, _ = fmt.Fprintln(out, header)
	for _, p := range pools {
		static, dynamic := bandsOf(p)
		printf(out, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d", p.GetName(), useName(p.GetUse()), p.GetRange(), PoolState(p.GetState()),
			percent(p.GetUsed(), p.GetSize()), static, dynamic, p.GetReserved(), p.GetResting())
		if wide {
			printf(out, "\t%d\t%d", p.GetSize(), free(p))
		}
		_, _ = fmt.Fprintln(out)
	}
	return out.Flush()
}

// band is a part of a pool with the number of its values in use.
type band struct{ used, size uint64 }

// String returns used/size.
func (b band) String() string { return fmt.Sprintf("%d/%d", b.used, b.size) }

func bandsOf(p *allocatorv1.Pool) (static, dynamic band) {
	size := p.GetStaticBand()
	if p.GetPerProtocol() {
		size *= uint64(len(pool.Protocols()))
	}
	static = band{p.GetStaticUsed(), min(size, p.GetSize())}
	return static, band{p.GetUsed() - min(p.GetStaticUsed(), p.GetUsed()), p.GetSize() - static.size}
}

// free returns the number of values that are neither in use, at rest nor at hand at a registry.
func free(p *allocatorv1.Pool) uint64 {
	return p.GetSize() - min(p.GetSize(), p.GetUsed()+p.GetResting()+p.GetReserved())
}

// percent returns a share. Only an empty pool has 0 %, and only a full one 100 %.
func percent(part, whole uint64) string {
	share := 100 * float64(part) / float64(max(whole, 1))
	switch {
	case part > 0 && share < 0.1:
		return "<0.1%"
	case part < whole && share > 99.9:
		return ">99.9%"
	default:
		return fmt.Sprintf("%.1f%%", share)
	}
}

// PoolSummary returns a pool in one line.
func PoolSummary(p *allocatorv1.Pool) string {
	return fmt.Sprintf("%s, %s, %s of %d values in use, static band of %d", p.GetRange(), PoolState(p.GetState()), countOf(p.GetUsed()), p.GetSize(), p.GetStaticBand())
}

func countOf(n uint64) string {
	if n == 0 {
		return "none"
	}
	return fmt.Sprint(n)
}

// maxDescribed bounds the allocations that DescribePool lists.
const maxDescribed = 10

// DescribePool prints a pool in words, with its allocations and their owners. listed is the first page of
// the allocations.
func DescribePool(w io.Writer, p *allocatorv1.Pool, listed *allocatorv1.ListAllocationsResponse) error {
	d := description{out: tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)}
	d.line("Name", "%s", p.GetName())
	d.line("Use", "%s", useName(p.GetUse()))
	d.line("Range", "%s", p.GetRange())
	if p.GetPerProtocol() {
		d.line("Protocols", "TCP, UDP and SCTP have numbers of their own")
	}
	if p.GetAvoidBuggyIps() {
		d.line("Addresses", "those that end in .0 or .255 are only for services that ask for them")
	}
	d.line("State", "%s", strings.TrimSuffix(PoolState(p.GetState())+": "+stateMeanings[p.GetState()], ": "))
	d.line("Values", "%d, %d in use (%s), %d free", p.GetSize(), p.GetUsed(), percent(p.GetUsed(), p.GetSize()), free(p))
	describeBands(d, p)
	d.line("At hand", "%d values in reserves of registries", p.GetReserved())
	d.line("Resting", "%d values released lately", p.GetResting())
	d.lines("Owners", ownersOf(listed))
	d.lines("Allocations", allocationsOf(listed))
	return d.out.Flush()
}

// describeBands prints the bands as ranges of values.
func describeBands(d description, p *allocatorv1.Pool) {
	static, dynamic := bandsOf(p)
	first, second := "", ""
	if space, err := pool.Parse(p.GetRange()); err == nil && p.GetStaticBand() <= space.Size() {
		first, second = valuesOf(space, 0, p.GetStaticBand()), valuesOf(space, p.GetStaticBand(), space.Size())
	}
	d.line("Static band", "%s%d of %d in use; left to those who ask for a value, while others are free", first, static.used, static.size)
	d.line("Dynamic band", "%s%d of %d in use", second, dynamic.used, dynamic.size)
}

// valuesOf returns the values with the indexes [from, to) in the form "first - last: ".
func valuesOf(space pool.Space, from, to uint64) string {
	if from >= to {
		return ""
	}
	return fmt.Sprintf("%s - %s: ", space.Value(from), space.Value(to-1))
}

// ownersOf returns how many of the listed values objects of each kind have.
func ownersOf(listed *allocatorv1.ListAllocationsResponse) []string {
	counts := map[string]int{}
	seen := map[string]bool{}
	for _, a := range listed.GetAllocations() {
		if seen[a.GetValue()] {
			continue // a value that several slots have
		}
		seen[a.GetValue()] = true
		if hasOwner(a) {
			counts[a.GetOwner().GetKind()]++
		}
	}
	var lines []string
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		lines = append(lines, fmt.Sprintf("%s: %d values", orDash(kind), counts[kind]))
	}
	if listed.GetNextPageToken() != "" {
		lines = append(lines, fmt.Sprintf("of the first %d values only; there are more", len(seen)))
	}
	return lines
}

// hasOwner reports whether an object has the value. A value at rest and one in a reserve have none.
func hasOwner(a *allocatorv1.Allocation) bool {
	state := a.GetState()
	return state != allocatorv1.AllocationState_ALLOCATION_STATE_RESTING && state != allocatorv1.AllocationState_ALLOCATION_STATE_RESERVED
}

// allocationsOf returns the first of the listed values that objects have.
func allocationsOf(listed *allocatorv1.ListAllocationsResponse) []string {
	var lines []string
	for _, a := range listed.GetAllocations() {
		if !hasOwner(a) {
			continue
		}
		if len(lines) == maxDescribed {
			return append(lines, "and more")
		}
		state := strings.ToLower(strings.TrimPrefix(a.GetState().String(), "ALLOCATION_STATE_"))
		lines = append(lines, fmt.Sprintf("%s %s: %s, %s", a.GetValue(), state, ownerName(a.GetOwner()), a.GetSlot()))
	}
	return lines
}

func ownerName(o *allocatorv1.Owner) string {
	name := o.GetName()
	if o.GetNamespace() != "" {
		name = o.GetNamespace() + "/" + name
	}
	return o.GetKind() + " " + name
}
