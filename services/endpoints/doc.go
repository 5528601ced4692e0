// Package endpoints chooses the backends of a service port from the service's EndpointSlices: the rules
// of KEP-1669 about endpoints that are ready, or that terminate and still serve. The node agent's plan
// and the edge share them, so that both send to the same backends.
package endpoints
