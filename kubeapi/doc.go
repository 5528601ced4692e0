// Package kubeapi is the daemon that serves the API of Kubernetes over the registry's: Services,
// EndpointSlices, Endpoints, Pods, Nodes, Namespaces, Leases and Events, so that clients of Kubernetes
// work as they are.
//
// The daemon has no state of its own. It reads objects from the registry and writes them to it on behalf
// of the client that the certificate or token of the request names (services/access explains how). It serves
// watches from the history of the change stream (internal/watchcache explains why). Any number of kubeapis
// can serve the same clients: resource versions are the registry's revisions, so a client that reaches
// another kubeapi continues at its revision, or gets an error that makes it list again.
//
// The daemon uses the types of Kubernetes (k8s.io/api, k8s.io/apimachinery) and the server of net/http.
// The alternative, k8s.io/apiserver with the registry as its storage, is four times as large. It brings
// its own admission, validation, storage and watches, which would answer clients before the registry does
// and could disagree with it.
//
// It is a daemon of its own because of the size of these libraries, and because it serves other clients
// than the registry. An attacker who takes over kubeapi has only kubeapi's certificate. The certificate can act
// for operators on objects of Kubernetes' kinds, and for nothing else.
package kubeapi
