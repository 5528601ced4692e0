// Package healthcheck answers the health checks of load balancers: whether this node has backends
// of a service.
//
// A service of type LoadBalancer with external traffic policy Local has its own port for health
// checks on every node. The answer is 200 if the node has local backends and 503 otherwise, in
// kube-proxy's format, because integrations of load balancers parse it. Ports open and close with
// the services. A port that cannot be opened is reported and retried, and does not affect the other
// services.
package healthcheck
