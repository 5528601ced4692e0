// Package healthcheck answers the health checks of load balancers and supervisors: whether this
// node has backends of a service (Server), and whether the node is healthy (NodeServer).
//
// A service of type LoadBalancer with external traffic policy Local has its own port for health
// checks on every node. The answer is 200 if the node has local backends and 503 otherwise. Ports
// open and close with the services. A port that cannot be opened is reported and retried, and does
// not affect the other services.
//
// The invariant: all answers have kube-proxy's format and meaning, because integrations of load
// balancers parse it. kube-proxy has both servers in one package too. Neither needs the registry or
// NATS, so both answer while the control plane is unavailable.
package healthcheck
