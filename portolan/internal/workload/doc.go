// Package workload runs a program as a pod: it registers it, gives it an address and its discovery environment, and takes it out again when it
// ends.
//
// The order matters to whoever depends on the program. Starting: the pod is stored, gets its address, the program starts, and only its
// readiness probe (or its running, where it has none) brings traffic. Stopping: the pod is deleted with a grace period first, so that
// balancers stop sending while the program still answers; then the program is asked to stop, and its end is confirmed by a deletion without
// grace. Deleting the pod and signalling the program at once would lose the requests that are on their way.
//
// The program finds services by their short names: where this process is privileged, it runs in a mount namespace in which
// resolv.conf names the installation's name servers; otherwise its environment has the search path, and the host's resolver has
// to know the zone. A resolver of our own beside each program would work without privileges only for programs that can be told
// its port.
//
// The pod is watched, so that another client's deletion stops the program too. The grace period ends the pod also when this process was
// killed; a finalizer of ours, the alternative, would keep it for ever.
package workload
