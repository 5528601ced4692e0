// Package nearest finds the name that was probably meant by one that is not known, for messages.
//
// The invariant: no suggestion is better than a wrong one. A name that would have to be changed for the most part suggests nothing.
package nearest
