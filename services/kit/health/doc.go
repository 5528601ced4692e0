// Package health knows whether a daemon is ready, and why not.
//
// Every part of a daemon reports under a name of its own; the daemon is ready
// when no part reports an error. The registry feeds /readyz and the gRPC health
// service. Parts push their state when it changes, they are not polled: the part
// knows at once, and a probe must be cheap. Only transitions are logged.
package health
