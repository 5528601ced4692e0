package stores_test

import (
	"testing"

	"portolan.dev/allocator/store"
	allocations "portolan.dev/allocator/store/storetest"
	"portolan.dev/faults/sim/stores"
	registry "portolan.dev/registry/store"
	"portolan.dev/registry/store/storetest"
)

func TestDiskConformance(t *testing.T) {
	allocations.Run(t, func(*testing.T) store.Store { return stores.NewDisk(nil).Open("allocator") })
	allocations.RunShared(t, func(*testing.T) allocations.Open {
		disk := stores.NewDisk(nil)
		return func(*testing.T) store.Store { return disk.Open("allocator") }
	})
}

func TestDatabaseConformance(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.Location {
		d := stores.NewDatabase(nil)
		return storetest.Location{Replicas: true, Open: func(testing.TB) storetest.Opened {
			s := d.Open("registry", registry.CommitterOptions{Usage: storetest.Usage})
			return storetest.Opened{Store: s, Commit: s.Commit}
		}}
	})
}
