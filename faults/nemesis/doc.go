// Package nemesis injects random faults into a lab while clients use it. It checks that no promise
// is broken meanwhile, and that every daemon has the right state afterwards.
//
// A Schedule is a list of faults, each with a round, a beginning and an end. Draw returns the
// schedule of a seed. Its text can be stored in a file and run again. In each round the clients of
// faults/clients write, watch, resolve names and connect while the faults of the round begin and
// end. Then all faults are healed and clients stop writing. When each component has caught up with
// the registry's log, checkers check:
//
//   - the state at rest, by the checkers of portolan/e2e/churn/check, which compare each daemon
//     with the world that results from the log (checkers.go);
//   - the records of the clients, by the checkers of faults/check (promises.go), which get the
//     times of the faults from the recorder;
//   - after the last round, the logs of the daemons.
//
// Each round has a history of its own, which begins with the objects at the end of the previous
// round. So a run can be of any length, and a checker never reads more than one round. A connection
// that is kept open ends with its round.
//
// Shrink removes faults for as long as a schedule still fails.
//
// The schedule is repeatable, but its effect depends on the interleaving of daemons and kernel. So
// a seed that failed once fails often, but not always.
//
//	make faults                              ten minutes of a random seed
//	make faults SEED=7 FOR=30m SHRINK=1
//	make faults SEED=7 SEEDS=30 FOR=24s      thirty seeds in turn, and tables over all of them
//	go test ./faults/nemesis -run TestNemesis -v -args -schedule FILE
//
// Only outcomes that a client cannot know are left open: a write without an answer may be committed
// or not, and may still be committed for a few seconds. The log at rest shows the outcome.
package nemesis
