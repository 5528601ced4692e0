// Package providers finds the load-balancer provider of a class, and calls it: built-in providers over pipes in
// the process, other providers over the network. All implement the same contract, and the controller treats
// them alike.
package providers
