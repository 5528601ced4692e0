// Package plan decides what an edge serves for one service: the ports at each of the service's
// load-balancer addresses, with the settings and the backends. It is pure: the same service, slices
// and facts give the same ports.
package plan
