// Package netnstest is a dataplanetest.Rig of network namespaces, for data planes in the kernel.
// The node is between a namespace of backends, one of client pods, and one of external clients.
//
// It runs in the guest of package kerneltest, and natively if the process is root and can make
// namespaces. It changes nothing outside of its namespaces.
package netnstest
