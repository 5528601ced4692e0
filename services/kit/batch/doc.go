// Package batch combines concurrent requests into batches: group commit without a timer.
//
// One batch runs at a time. Requests that arrive meanwhile wait, and all of them, up to the limits,
// form the next batch. A single request is therefore never delayed, and batches grow by themselves
// under load. A timer would delay single requests, and its period would be a guess.
//
// The invariant: every request has exactly one outcome, and its caller learns whether the request
// was run. A request is withdrawn, and not run, if its context is done before its batch has
// started. After that Do waits for the batch, because the error of the context would not say
// whether the request was run. The batch's own deadline limits the wait.
//
//	g := batch.New(batch.Options[op]{MaxItems: 256, Timeout: 10 * time.Second}, commit)
//	result, err := g.Do(ctx, op)
//	outcomes := g.DoMany(ctx, ops)
package batch
