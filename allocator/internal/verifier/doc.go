// Package verifier compares the allocated values with the values in the registry's objects and
// corrects differences.
//
// A value that no object has is freed. A value that an object has without an allocation is
// allocated for it. A difference that cannot be corrected is reported as an Event on the Service.
// The invariant is that nothing is taken from a live object. A value is therefore freed only after
// the view has been complete for a while, after the difference has lasted for the whole grace, and
// after the registry itself has confirmed that the object is gone or has another value.
//
// At each start, before any value is allocated, the values of the objects in a complete snapshot
// are adopted ([Verifier.Adopted]). The alternative, doing so only if the store is empty, would
// not notice an old copy of a store. It would also save nothing, because only registries call the
// allocator.
//
// A value is allocated before its object is stored, and released after the object is deleted. A
// crash may happen in between, and the verifier corrects the result. It examines only kinds that
// the registry has. Confirmed values of other owners are left alone.
package verifier
