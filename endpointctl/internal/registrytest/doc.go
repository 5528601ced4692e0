// Package registrytest is as much of a registry as the tests of the endpoint
// controller need, on a log in memory: the objects that it writes, with versions
// and fencing as the real one enforces them.
package registrytest
