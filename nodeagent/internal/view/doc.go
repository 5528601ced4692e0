// Package view says which objects the node agent works from: services with their EndpointSlices, the
// pods of its node, and the node itself. services/nodeview holds them. Trim leaves out the fields of
// slices that no plan reads.
package view
