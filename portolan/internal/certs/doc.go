// Package certs keeps the folder of an installation's certificates: an
// authority, and what it has issued, as files that daemons, NATS and Postgres
// read.
//
// The invariant: nothing that is there is overwritten unless it is asked for,
// and a file is always whole, the old one or the new one. Keys are readable by
// their owner alone.
//
// A folder and not a service: a first installation needs certificates before
// anything runs. Whoever has a certificate authority of their own can use it
// instead; the daemons look at the URI SAN and nothing else.
package certs
