// Package kittest starts and stops real servers for tests, and waits for conditions without
// sleeping.
//
// A helper stops everything that it has started, and waits for its end, when the test ends. The
// servers are real: an embedded NATS server, a temporary Postgres, a gRPC server built as the
// daemons build it. The package is not for production code.
package kittest
