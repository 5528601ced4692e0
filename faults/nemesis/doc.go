// Package nemesis breaks a lab at random while clients use it, and afterwards demands that nothing was lost and
// that every daemon has what it should.
//
// A Schedule is a list of faults, each with a round, a beginning and an end. Draw makes one up from a seed; its
// text can be kept in a file and run again. In each round clients write, read, ask names and connect while the
// faults of the round begin and end. Then everything is healed, and the checkers of portolan/e2e/churn compare
// all daemons with what clients were told. Shrink leaves out faults for as long as a schedule still fails.
//
// The schedule is repeatable, its effect is not: daemons and kernels interleave as they like. So a seed that
// fails finds the fault often and not always.
//
//	make faults                              ten minutes of a random seed
//	make faults SEED=7 FOR=30m SHRINK=1
//	go test ./faults/nemesis -run TestNemesis -v -args -schedule FILE
//
// What a client cannot know is left open, and no more: a write whose answer did not come is in doubt. The object
// may be as before or as after it, or be changed by it a little later. At rest the registry says which, but it
// must not have an older version than any that a client was told of.
package nemesis
