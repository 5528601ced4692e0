// Package resource has the table of the resources that the API serves: those of Portolan's kinds, those
// that Portolan does not have and that clients list nevertheless, and the reviews, by which clients ask
// what they may do.
//
// Clients such as kube-proxy, kube-router and ingress controllers list kinds before they do anything,
// and stop if the server does not know one. kubectl does so with the kinds that it prunes or describes.
// These kinds are therefore served, and empty.
package resource
