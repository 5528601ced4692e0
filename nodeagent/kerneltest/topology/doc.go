// Package topology builds networks of network namespaces for kernel tests: a
// node in the middle, and around it whoever talks to it or through it.
//
// Namespaces end with the test. Nothing outside of them is touched.
package topology
