// Package upstream calls the registry for the clients of kubeapi.
//
// Each call is on behalf of the client in the context, so the registry authorizes it as if the client had
// called. Only Head, which returns a revision, is a call in kubeapi's own name.
package upstream
