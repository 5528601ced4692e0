// Package storetest tests the contract of store.Store, for every implementation.
package storetest
