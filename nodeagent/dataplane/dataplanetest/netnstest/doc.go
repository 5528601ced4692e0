// Package netnstest is a dataplanetest.Rig of network namespaces, for data planes
// in the kernel: a node between a namespace of backends, one of pods that are
// clients, and one of clients outside.
//
// It runs wherever namespaces can be made: in the guest of package kerneltest,
// and natively where root is at hand. Nothing outside of its namespaces is
// touched.
package netnstest
