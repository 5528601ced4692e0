// Package certs manages the folder of an installation's certificates: an authority and its
// certificates, as files that daemons, NATS and Postgres read.
//
// The invariant is that no existing file is overwritten unless that is requested, and that a file
// is always complete, in either its old or its new version. Only their owner can read keys.
//
// It is a folder and not a service, because a first installation needs certificates before any
// daemon runs. Registries renew certificates of daemons afterwards, with the folder's issuer.
// Certificates of NATS and Postgres servers are good for 90 days, because an operator has to renew them
// and to make the servers read the new files. All other certificates are good for 24 hours. This includes
// certificates of people: the command line renews them by itself in the folder with the authority's key,
// and an operator who issues one for another person chooses the time for which it may be misused if it
// is lost.
//
// An existing certificate authority can be used instead, because the daemons check only the URI SAN.
package certs
