// Package app runs a process of Portolan: its tasks, which start and end together, its signals and
// exit codes, and the Host that a daemon receives.
//
// The invariant: every goroutine belongs to a task, and RunTasks returns only after all its tasks
// have returned. The first error ends the other tasks. RunTasks returns it together with all later
// errors. errgroup is similar, but loses later errors and lets a panic end the process.
//
// Callers that retry use Pause and double the pause up to a bound, which is one expression. The
// library cenkalti/backoff, which OpenTelemetry links, would take over the loop to replace it.
package app
