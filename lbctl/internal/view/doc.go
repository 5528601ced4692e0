// Package view holds the services that have or want a load balancer, the slices of services, and the
// nodes, as the registry has them. It is safe for concurrent use, and the objects in it never change.
package view
