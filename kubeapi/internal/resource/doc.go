// Package resource has the table of the resources that the API serves: Portolan's kinds, kinds that
// Portolan lacks although clients list them, and the reviews, by which clients ask for their permissions.
//
// Clients such as kube-proxy, kube-router and ingress controllers first list all kinds that they need, and
// stop if the server does not know one. kubectl does so with the kinds that it prunes or describes. Lists
// of kinds that Portolan lacks are therefore served, and empty.
package resource
