// Package storetest defines the behaviour of a store. Every implementation must pass [Run].
// [CheckInvariants] and [Load] are for tests that strain a store in other ways (crashes, lost
// connections, several replicas).
//
// The package has its own implementation of the rules (the model in model.go) and does not use
// store.Decide, so it finds a rule that is broken there.
package storetest
