// Package verifier compares the allocated values with the values in the registry's objects and
// corrects differences.
//
// A value that no object has is freed. A value that an object has without an allocation is
// allocated for it. A difference that cannot be corrected is reported as an Event on the Service.
// The invariant is that nothing is taken from a live object. A value is therefore freed only after
// the view has been complete for a while, after the difference has lasted for the whole grace, and
// after the registry itself has confirmed that the object is gone or has another value.
//
// The verifier also follows nodes. A node with an address in the range of a pool is reported as an
// Event on the node, and the API refuses a pool over the address of a node. The alternative, asking
// the registry for its nodes at CreatePool, would not notice a node that comes later.
//
// The verifier adopts the values of the objects in the complete view before any value is allocated
// ([Verifier.Adopted]): at each start, whenever the registry's log has another epoch because the registry
// was restored, and whenever the store went back to an older state. It first waits until the view has all
// objects that were written before. The alternative, adopting only if the store is empty, would not notice
// an old copy of a store. It would also save nothing, because only registries call the allocator. The
// registry stores newly allocated values only in a log of the epoch that the allocator has told it.
//
// The verifier also closes reserves. It closes the reserve of a registry process that has not renewed it
// in time, and it closes all reserves before it adopts values. It deletes the Lease by which the holder
// fences its commits, reads the head of the log, and waits until the view has everything up to there.
// Since no value of the reserve is stored after the deletion, the view then has all services with such
// values. They get their values, and the other values rest. Values in a reserve are never freed in another
// way. If a service has had a value of a reserve for the whole grace, the holder's settlement was lost, and
// the verifier gives the value to the service.
//
// The closing runs apart from the comparison, which pauses for changes to settle, and waits for the
// view without blocking Apply, which moves the view.
//
// A value is allocated before its object is stored, and released after the object is deleted. A
// crash may happen in between, and the verifier corrects the result. It examines only kinds that
// the registry has. Confirmed values of other owners are left alone.
package verifier
