// Package kittest has what tests of Portolan need: real parts started and
// stopped for them, and waiting without sleeping.
//
// Whatever a helper starts it also stops, and waits for, when the test ends.
// The parts are the real ones: an embedded NATS server, a throwaway Postgres, a
// gRPC server as the daemons build it. Nothing here is for production code.
package kittest
