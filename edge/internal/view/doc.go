// Package view says which objects an edge works from: the services of its class, the EndpointSlices, the
// secrets with certificates, and its own node, because endpoints of the same zone may be preferred.
// services/nodeview holds them.
package view
