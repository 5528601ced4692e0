// Package storetest is the contract of store.Store as tests, for every
// implementation of it.
package storetest
