// Package queue holds the keys that are due for work, each once.
//
// A key that is added becomes due after a short quiet time, so that a burst of
// changes is one piece of work; it is put off no longer than a maximum. The
// invariant: no key is worked on twice at once, and what is added while it is
// worked on is worked on again.
package queue
