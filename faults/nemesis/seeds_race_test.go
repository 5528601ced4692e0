//go:build race

package nemesis

// fixedSeeds are the seeds of TestFixedSeeds. The race detector sees only the clients and checkers,
// which are the same under each seed: the daemons are built without it.
var fixedSeeds = []uint64{1}
