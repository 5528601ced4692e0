// Package view holds the objects of the registry that the registrar needs: its own pods, and the selector and
// the ports of each service. The other fields of services are removed, because a registrar with ten containers
// follows all services of an installation.
package view
