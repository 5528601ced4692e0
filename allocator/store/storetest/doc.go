// Package storetest is the suite that each implementation of store.Store must pass. Run tests one
// open store, and RunShared what several processes see that use one store.
package storetest
