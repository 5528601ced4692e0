// Package nearest suggests, for messages, the known name that a user probably meant by an unknown
// one.
//
// The invariant: no suggestion is better than a wrong one. If most of a name would have to be
// changed, nothing is suggested.
package nearest
