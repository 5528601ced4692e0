// Package nemesis breaks a lab at random while clients use it, and demands that no promise is broken meanwhile and
// that every daemon has what it should afterwards.
//
// A Schedule is a list of faults, each with a round, a beginning and an end. Draw makes one up from a seed; its
// text can be kept in a file and run again. In each round the clients of faults/clients write, watch, ask names
// and connect while the faults of the round begin and end. Then everything is healed and clients stop to write.
// When each component has what the registry's log says, three things are judged:
//
//   - the state at rest, by the checkers of portolan/e2e/churn/check, which compare each daemon with the world that
//     the log leads to (checkers.go);
//   - what clients recorded, by the checkers of faults/check (promises.go), which know from the recorder what the
//     nemesis did when;
//   - after the last round, what daemons printed.
//
// Each round has a history of its own, which begins with the objects that the round before left. So a run can be of
// any length, and a checker never reads more than one round. A connection that is kept open ends with its round.
//
// Shrink leaves out faults for as long as a schedule still fails.
//
// The schedule is repeatable, its effect is not: daemons and kernels interleave as they like. So a seed that
// fails finds the fault often and not always.
//
//	make faults                              ten minutes of a random seed
//	make faults SEED=7 FOR=30m SHRINK=1
//	make faults SEED=7 SEEDS=30 FOR=24s      thirty seeds, one after the other, and tables over all of them
//	go test ./faults/nemesis -run TestNemesis -v -args -schedule FILE
//
// What a client cannot know is left open, and no more: a write whose answer did not come may have happened or not,
// and may still happen for a few seconds. The log says at rest which it was.
package nemesis
