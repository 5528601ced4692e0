// Package workload runs a program as a pod. It registers the pod, gives it an address and the
// program its discovery environment, and removes the pod when the program ends.
//
// The order of the steps protects the program's clients. At the start the pod is stored and gets
// its address, and the program starts. Traffic comes only after its readiness probe succeeds or,
// without a probe, once it runs. At the end the pod is first deleted with a grace period, so that
// balancers stop sending while the program still answers. The program is then asked to stop, and a
// deletion without grace confirms its end. Deleting the pod and signalling the program at once
// would lose requests in transit.
//
// The program finds services by their short names. If this process is privileged, it runs the
// program in a mount namespace in which resolv.conf names the installation's name servers.
// Otherwise the program's environment has the search path, and the host's resolver must be
// configured for the zone. A separate resolver beside each program would need no privileges, but
// would work only for programs that can be configured with its port.
//
// The pod is watched, so that the program is also stopped if another client deletes the pod. The
// grace period ends the pod even if this process is killed. A finalizer, the alternative, would
// keep the pod forever.
package workload
