//go:build !race

package nemesis

// fixedSeeds are the seeds of TestFixedSeeds.
var fixedSeeds = []uint64{1, 2}
