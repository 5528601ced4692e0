// Package check checks that a history, as recorded by package history, keeps the promises of the
// product.
//
// A Checker is a function of a whole history, so its tests are histories that must pass and
// histories that must not. Only the registry's log of changes decides which changes were committed.
// The log itself is checked too: it has no gap, every reading of it has the same changes, and the
// changes are in the order in which writes were acknowledged.
//
// Two designs were considered. The first is a checker that receives events one by one and keeps a
// state. It finds a broken promise at once, and needs memory only for its state. But whether a call
// was correct depends on later events (an unknown write may take effect later), so most checkers
// would have to wait for the log anyway. The second is a function of a history. It was chosen
// because a history that fails can be kept and checked again. A run in progress is checked by its
// history so far: calls that have not ended count as unknown.
//
// At rest, the checkers of portolan/e2e/churn/check compare each daemon with the world that follows
// from the log, see World.
package check
