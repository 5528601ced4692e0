// Package app is the frame a process of Portolan runs in: tasks that live and
// end together, signals and exit codes, and the host that a daemon is given.
//
// The invariant: every goroutine belongs to a task, and RunTasks returns only
// when all its tasks have. The first error ends the others and is what the
// caller gets, together with whatever went wrong afterwards. errgroup comes
// near, but loses later errors and lets a panic take the process down.
package app
