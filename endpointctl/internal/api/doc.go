// Package api is the gRPC server of the endpoint controller.
package api
