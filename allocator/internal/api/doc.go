// Package api is the gRPC face of the allocator: it checks and translates
// requests, and the engine does what they ask.
package api
