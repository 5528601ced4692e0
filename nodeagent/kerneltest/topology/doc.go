// Package topology builds networks of network namespaces for kernel tests: a node in the middle,
// surrounded by the programs that talk to it or through it.
//
// Namespaces end with the test. Nothing outside of them changes.
package topology
