// Package loadbalancers tests lbctl with a real registry and a real allocator, all in one process, and
// with providers of other programs over TCP.
package loadbalancers
