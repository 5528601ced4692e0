// Package queue holds the keys that are due for work, each once.
//
// An added key becomes due after a short quiet time, so that a burst of changes is one piece of
// work. It is delayed no longer than a maximum. The invariant is that no key is worked on twice at
// once, and that a key that is added while it is worked on is worked on again.
package queue
