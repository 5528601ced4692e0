// Package e2e drives the built programs the way people do: it starts `portolan dev`, applies manifests, runs backends, and asks by curl, dig and
// grpcurl. Other tests start each daemon as a process of its own: with bad input, in any order, and as docs/operations.md says. Each test has an
// installation of its own on a loopback network of its own, so tests do not meet.
package e2e
