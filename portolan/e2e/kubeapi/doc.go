// Package kubeapi tests the API of Kubernetes, on a registry with its store and NATS, by requests over
// HTTP and by clients as they are: kubectl and client-go.
package kubeapi
