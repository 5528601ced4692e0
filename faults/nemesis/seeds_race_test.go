//go:build race

package nemesis

// fixedSeeds are the seeds of TestFixedSeeds. One seed is enough for the race detector, because it
// covers only the clients and checkers, which are the same for each seed. The daemons are built
// without it.
var fixedSeeds = []uint64{1}
