// Package api is the gRPC face of the endpoint controller: what it does and why.
package api
