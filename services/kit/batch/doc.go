// Package batch folds concurrent requests into batches: group commit without a timer.
//
// One batch is under way at a time. Requests that arrive meanwhile wait, and all of them (up to the bounds) are the next batch: a lone request is
// never delayed, and the busier the thing behind is, the larger the batches become by themselves. A timer would delay the lone request and guess at
// what the queue knows.
//
// The one invariant: every request has exactly one outcome of its own, and knows whether it was run. A request whose context ends before its batch
// began is withdrawn and was not run. From then on Do stays until the batch is done, since "your context ended" is no answer to "did it happen"; the
// batch's own deadline bounds that.
//
//	g := batch.New(batch.Options[op]{MaxItems: 256, Timeout: 10 * time.Second}, commit)
//	result, err := g.Do(ctx, op)
package batch
