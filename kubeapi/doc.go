// Package kubeapi is the daemon that serves the API of Kubernetes over the registry's: Services,
// EndpointSlices, Endpoints, Pods, Nodes, Namespaces, Leases and Events.
package kubeapi
