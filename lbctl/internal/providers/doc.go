// Package providers knows the load-balancer providers by class, and calls them: the built-in one over
// a pipe in the process, and those of others over the network. All of them implement the same
// contract, and the controller cannot tell them apart.
package providers
