package loadbalancers

import (
	"fmt"
	"slices"
	"testing"

	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

// TestAnAllocatorThatLostItsStoreGivesNoAddressTwice kills the allocator and starts it with an empty folder, as
// operations.md advises after the loss of its store. Services that come later request the addresses of the others,
// or take any, until the pool is full.
func TestAnAllocatorThatLostItsStoreGivesNoAddressTwice(t *testing.T) {
	i := install(t)
	i.create(balanced("alone"))
	i.create(balanced("web", share("edge"), port(80)))
	alone, shared := i.awaitAddresses("alone", 1)[0], i.awaitAddresses("web", 1)[0]
	i.create(balanced("tls", share("edge"), port(443)))
	i.awaitExactly("tls", shared)
	before := []string{alone + " Service CONFIRMED", shared + " AddressShare CONFIRMED"}
	i.awaitAllocations(before...)

	i.stopAllocator()
	i.startAllocator(t.TempDir())
	i.create(balanced("thief", annotate(object.AnnotationBalancerIPs, alone)))
	i.create(balanced("second", annotate(object.AnnotationBalancerIPs, shared)))
	i.awaitReason("thief", "Refused", "belongs to another service")
	i.awaitReason("second", "Refused", "belongs to another service")
	i.awaitAllocations(before...)

	seen := []string{alone, shared}
	for _, name := range []string{"a", "b", "c", "d"} { // the rest of a /29
		i.create(balanced(name))
		seen = append(seen, i.awaitAddresses(name, 1)[0])
	}
	slices.Sort(seen)
	if len(slices.Compact(slices.Clone(seen))) != len(seen) {
		t.Errorf("the addresses are %v", seen)
	}
	i.create(balanced("late"))
	i.awaitReason("late", "NoAddress", "enlarge a pool")
	i.delete("late") // it would take the next address that is free
	i.awaitGone("late")

	// The share still has its owner and its slots, so that the last of its services releases the address.
	i.delete("web")
	i.awaitGone("web")
	i.awaitExactly("tls", shared)
	i.delete("tls")
	i.awaitGone("tls")
	i.awaitExactly("second", shared)
}

// TestAPoolThatIsMadeAgainGivesNoAddressTwice loses the store of an allocator together with a pool that was made by a call.
// A service waits for an address, and takes one as soon as the pool is there again.
func TestAPoolThatIsMadeAgainGivesNoAddressTwice(t *testing.T) {
	i := install(t)
	const pool = "198.51.100.0/30" // has two addresses
	i.createPool("more", pool)
	i.create(balanced("old", annotate(object.AnnotationBalancerPool, "more")))
	old := i.awaitAddresses("old", 1)[0]
	i.awaitReason("old", "Ensured", "")
	i.stopAllocator()
	i.startAllocator(t.TempDir())
	for _, name := range []string{"a", "b"} {
		i.create(balanced(name, annotate(object.AnnotationBalancerPool, "more")))
		i.awaitReason(name, "NoAddress", `there is no pool "more"`)
	}
	i.createPool("more", pool)
	i.awaitEither("a", "b", func(got string) bool { return got != old })
	i.awaitExactly("old", old)
}

// awaitEither waits until one of two services has an address, and the other one waits for an address.
func (i *installation) awaitEither(a, b string, want func(address string) bool) {
	i.Helper()
	kittest.Eventually(i.T, "an address of "+a+" or "+b, func() error {
		got := append(addresses(i.get(a)), addresses(i.get(b))...)
		if len(got) != 1 {
			return fmt.Errorf("they have %v", got)
		}
		if !want(got[0]) {
			i.Fatalf("one has %s, which another service has", got[0])
		}
		return nil
	})
}
