// Package certs manages the folder of an installation's certificates: an authority and its
// certificates, as files that daemons, NATS and Postgres read.
//
// The invariant is that no existing file is overwritten unless that is requested, and that a file
// is always complete, in either its old or its new version. Only their owner can read keys.
//
// It is a folder and not a service, because a first installation needs certificates before any
// daemon runs. Registries renew certificates of daemons afterwards, with the folder's issuer.
// Certificates that somebody has to renew, or whose owner has to be told of new files, are good for
// 90 days: those of NATS and Postgres servers. All others are good for 24 hours, those of people
// too, because a person with the folder gets a new one without noticing, and everybody else should
// choose how long a lost certificate may be used. An existing certificate authority can be used instead, because the daemons check
// only the URI SAN.
package certs
