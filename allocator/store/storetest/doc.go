// Package storetest is the suite that each implementation of store.Store must pass. Run tests one open
// store, and RunShared several processes on one store.
package storetest
