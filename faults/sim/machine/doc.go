// Package machine is a machine in memory for a node agent: addresses, a load balancer, a packet
// filter, routes, flows and settings of a kernel. The agent's own data plane (kernel.Plane) runs
// above it.
//
// A Machine keeps the state of its kernel when the agent dies, and the agent's folder as it was at
// that instant. A Process is one life of the agent. The kernel refuses the operations of a dead
// process, and they change nothing. A process may die between any two changes of the balancer.
package machine
