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
// An allocation comes before its object is stored and a release after the
// object is gone, and a crash may come between the two: this is what clears
// up after it. Only kinds that the registry has are judged; what others have
// confirmed is theirs.
package verify
