// Package e2e drives the built programs the way people do: it starts `portolan dev`, applies manifests, runs backends, and asks by curl, dig and
// grpcurl. Each test has an installation of its own on a loopback network of its own, so tests do not meet.
package e2e
