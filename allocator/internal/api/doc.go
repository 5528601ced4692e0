// Package api implements the gRPC service of the allocator. It validates and converts requests,
// which the engine executes.
package api
