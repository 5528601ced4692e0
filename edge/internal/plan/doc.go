// Package plan decides how an edge serves one service. The plan has a port for each port of the service at each
// of its load-balancer addresses, with settings and backends. The package is pure: the same service, slices and
// facts give the same ports.
package plan
