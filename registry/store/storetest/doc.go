// Package storetest is the definition of a store: [Run] is what every implementation passes, [CheckInvariants] and [Load] are for whoever torments
// one in another way (crashes, lost connections, several replicas).
//
// It knows the rules on its own (the model in model.go), not through store.Decide: a rule broken there is found here.
package storetest
