package dump

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	allocatorv1 "portolan.dev/api/allocator/v1"

	"portolan.dev/allocator/pool"
	"portolan.dev/allocator/store"
)

var ports = store.Pool{Name: "ports", Use: allocatorv1.Use_USE_NODE_PORT, Range: "30000-30099", State: allocatorv1.PoolState_POOL_STATE_ACTIVE, Band: 16}

func held(port uint16) store.Allocation {
	return store.Allocation{Value: pool.PortValue(port), Pool: "ports", Owner: store.Owner{UID: "u"}, Claims: []store.Claim{{Slot: "p", Since: time.UnixMilli(5)}}}
}

// TestContentThatBreaksTheRules checks that files with a right checksum, but with content that no allocator
// writes, are refused.
func TestContentThatBreaksTheRules(t *testing.T) {
	overlapping, backwards := ports, ports
	overlapping.Name, backwards.Range = "more", "30099-30000"
	elsewhere, ownerless, idle := held(30001), held(30001), held(30001)
	elsewhere.Pool, ownerless.Owner.UID, idle.Claims = "none", "", nil
	for name, c := range map[string]struct {
		content Content
		want    string
	}{
		"a value twice":              {Content{[]store.Pool{ports}, []store.Allocation{held(30001), held(30001)}}, "30001"},
		"a value outside":            {Content{[]store.Pool{ports}, []store.Allocation{held(40000)}}, "40000"},
		"a pool that does not exist": {Content{[]store.Pool{ports}, []store.Allocation{elsewhere}}, "none"},
		"no owner":                   {Content{[]store.Pool{ports}, []store.Allocation{ownerless}}, "no owner"},
		"neither in use nor at rest": {Content{[]store.Pool{ports}, []store.Allocation{idle}}, "claims"},
		"pools that overlap":         {Content{[]store.Pool{ports, overlapping}, nil}, "overlaps"},
		"a pool twice":               {Content{[]store.Pool{ports, ports}, nil}, "ports"},
		"a range backwards":          {Content{[]store.Pool{backwards}, nil}, "30099"},
		"a use that is not known":    {Content{[]store.Pool{{Name: "x", Use: 77, Range: "1-2"}}, nil}, "77"},
	} {
		var out bytes.Buffer
		if _, err := Write(&out, c.content.Snapshot(), "test", time.UnixMilli(9)); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(&out); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestAFailedReadIsNoEnd writes a snapshot that cannot be read to its end.
func TestAFailedReadIsNoEnd(t *testing.T) {
	broken := errors.New("disk on fire")
	var out bytes.Buffer
	_, err := Write(&out, store.Snapshot{Pools: []store.Pool{ports}, Allocations: func(yield func(store.Allocation, error) bool) {
		if yield(held(30001), nil) {
			yield(store.Allocation{}, broken)
		}
	}}, "test", time.UnixMilli(9))
	if !errors.Is(err, broken) {
		t.Errorf("Write returned %v", err)
	}
	if _, err := Read(&out); err == nil {
		t.Error("what was written before the failure was read as a whole")
	}
}
