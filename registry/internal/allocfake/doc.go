// Package allocfake is an allocator in memory for the registry's tests. It keeps the rules that the registry relies on: one owner per value, claims repeated
// with the same owner and slot give the same value, a set is served wholly or not at all, and only an owner can give its values back.
package allocfake
