// Package workload runs a program as a pod: it registers it, gives it an address and its discovery environment, and takes it out again when it
// ends.
//
// The order matters to whoever depends on the program. Starting: the pod is stored, gets its address, the program starts, and only its
// readiness probe (or its running, where it has none) brings traffic. Stopping: the pod is marked as terminating first, so that balancers
// stop sending while the program still answers; then the program is asked to stop, and when it has ended the pod goes. A finalizer of ours
// holds the pod between the two. The alternative, deleting the pod and signalling the program at once, loses the requests that are on
// their way.
package workload
