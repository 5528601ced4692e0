// Package kubeapi is the daemon that serves the API of Kubernetes over the registry's: Services,
// EndpointSlices, Endpoints, Pods, Nodes, Namespaces, Leases and Events, so that clients of Kubernetes
// work as they are.
//
// It has no state of its own. Objects are read from the registry and written to it, on behalf of the
// client whose certificate or token the request came with (services/access says how, and why); watches are served
// from the history of the change stream (internal/watchcache says why from there). Any number of
// kubeapis can serve the same clients: resource versions are the registry's revisions, so a client that
// reaches another kubeapi goes on where it was, or is told to list again.
//
// It is written on the types of Kubernetes (k8s.io/api, k8s.io/apimachinery), with the server of net/http.
// The alternative, k8s.io/apiserver with the registry as its storage, is four times as large. It brings
// its own admission, validation, storage and watches, which would answer clients before the registry does
// and could disagree with it. It is a daemon of its own because of the size of these libraries, and because its
// clients are not those of the registry: whoever breaks in here has its certificate, which can act for
// operators on objects that Kubernetes has, and nothing else.
package kubeapi
