// Package nemesis injects random faults into a lab while clients use it. It checks that all
// promises of Portolan are kept during the faults, and that every daemon has the right state after
// them.
//
// A Schedule is a list of faults, each with a round, a beginning and an end. Draw returns the
// schedule of a seed. The text of a schedule can be stored in a file and run again. In each round
// the clients of faults/clients write, watch, resolve names and connect while the faults of the
// round begin and end. Then all faults are healed and clients stop writing. When each component has
// caught up with the registry's log, checkers check:
//
//   - the state at rest, with the checkers of portolan/e2e/churn/check, which compare each daemon
//     with the objects that result from the log (checkers.go);
//   - the records of the clients, with the checkers of faults/check (promises.go), which get the
//     times of the faults from the recorder;
//   - after the last round, the logs of the daemons.
//
// Each round has a history of its own, which begins with the objects at the end of the previous
// round. So a run can have any length, and a checker never reads more than one round. A connection
// that a client keeps open is closed at the end of its round.
//
// Shrink removes faults from a schedule for as long as the schedule still fails.
//
// A seed always has the same schedule, but the effect of a schedule depends on the interleaving of
// the daemons. So a seed that failed once fails often, but not always.
//
//	make faults                              ten minutes with a random seed
//	make faults SEED=7 FOR=30m SHRINK=1
//	make faults SEED=7 SEEDS=30 FOR=24s      thirty seeds one after the other, and tables over all
//	go test ./faults/nemesis -run TestNemesis -v -args -schedule FILE
//
// A client cannot know the outcome of a write without an answer. The write may have been committed
// or not, and may still be committed for a few seconds. The log at rest shows the outcome.
package nemesis
