// Package certs manages the folder of an installation's certificates: an authority and its
// certificates, as files that daemons, NATS and Postgres read.
//
// The invariant is that no existing file is overwritten unless that is requested, and that a file
// is always complete, in either its old or its new version. Only their owner can read keys.
//
// It is a folder and not a service, because a first installation needs certificates before any
// daemon runs. An existing certificate authority can be used instead, because the daemons check
// only the URI SAN.
package certs
