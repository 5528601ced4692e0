// Package allocfake is an in-memory allocator for the registry's tests. It implements the rules
// that the registry relies on: a value has one owner, a repeated claim with the same owner and slot
// gets the same value, a set is served as a whole or not at all, and only the owner of a value can
// release it.
package allocfake
