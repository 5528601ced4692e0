// Package check compares a history recorded by package history with the promises of the product.
//
// A Checker looks at a whole history at once and does nothing else, so each has tests with
// histories that must pass and with histories that must not. Which changes were committed is read
// from the registry's log of changes alone. The log itself is checked too: it has no gap, every
// reading of it has the same changes, and they are in the order in which writes were acknowledged.
//
// Two designs were considered. One is a checker that receives each event and keeps a state. It
// finds a fault at once, and needs memory for its state only. But a client's call is judged by
// later events (an unknown write may take effect later), so most checkers would have to wait for
// the log anyway. The other is a function of a history. It was chosen because a history that fails
// can be kept and checked again. To check a run in progress, its history so far is checked: calls
// that have not ended count as unknown.
//
// At rest, the checkers of portolan/e2e/churn/check compare each daemon with the world that the log
// leads to, see World.
package check
