// Package engine combines the table and the store: requests are decided in memory and written to
// the store, many in one transaction.
//
// The first invariant is that a result is returned only after it is stored. If the store fails a
// batch, the batch is undone in memory. It may have been stored nevertheless; then the next batch
// learns it from the store.
//
// The second is that a batch is decided from the present state of the store, although other processes
// write to it too. Before the decision, and under its lock, the store gives the engine the changes of
// the other processes. Readers that must see these changes call Refresh first: lists, metrics and the
// verifier.
//
// The third: if the store went back to an older state, clients get no values until the verifier has
// reported that all values in use are allocated again. The engine checks this in the decision, because a
// check before the call would let requests pass that the same batch then decides from the old state.
package engine
