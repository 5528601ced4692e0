// Package e2e drives the built programs as users do. It starts `portolan dev`, applies manifests,
// runs backends, and asks by curl, dig and grpcurl. Other tests start each daemon as a process of
// its own: with bad input, in any order, and as docs/operations.md describes. Each test has its own
// installation on its own loopback network, so that tests do not interfere.
package e2e
