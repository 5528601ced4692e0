// Package verify compares what is allocated with what the registry's objects
// have, and mends the difference.
//
// A value that no object has is freed, one that an object has and nobody
// allocated is allocated for it, and what cannot be mended is reported as an
// Event on the Service. The invariant: nothing is taken from a live object. So
// nothing is freed before the view has been complete for a while, before the
// difference has stood for the whole grace, nor before the registry itself,
// asked at the end, has said that the object is gone or has another value.
//
// Before anything is allocated at all, the values of the objects in a complete
// snapshot are taken up ([Verifier.TakenUp]), at each start. Doing so only for an
// empty store was the alternative: it does not notice an old copy of a store, and
// saves nothing, because only registries call the allocator.
//
// An allocation comes before its object is stored and a release after the
// object is gone, and a crash may come between the two: this is what clears
// up after it. Only kinds that the registry has are judged; what others have
// confirmed is theirs.
package verify
