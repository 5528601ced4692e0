// Package healthcheck answers load balancers: has this node backends of this
// service?
//
// A service of type LoadBalancer with external policy Local has a port of its
// own on every node for that question. The answer is 200 with local backends
// and 503 without, in the form that kube-proxy gives, because load balancers'
// integrations read it. Ports are opened and closed with the services; one that
// cannot be opened is reported and tried again, and concerns nobody else.
package healthcheck
