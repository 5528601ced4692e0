// Package upstream calls the registry for the clients of kubeapi.
//
// Each call is on behalf of the client whose identity the context has, so the registry decides about it
// as if the client had called. The one call in kubeapi's own name is Head, which tells a revision.
package upstream
