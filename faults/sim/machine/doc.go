// Package machine simulates the machine of a node agent in memory: addresses, a load balancer, a
// packet filter, routes, flows and settings of a kernel. The agent's own data plane (kernel.Plane)
// uses it.
//
// When the agent dies, its Machine keeps the state of the kernel, and the files of the agent as
// they were at that instant. A Process is one process of the agent. The operations of a dead
// process fail and change nothing. A process may die between any two changes of the balancer.
package machine
