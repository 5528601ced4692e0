// Package authority issues the certificates that package identity uses. It implements the
// certificate authority of one installation. The operator of the installation keeps its key.
//
// The invariant: an issued certificate is for exactly one role, valid for clients and servers and
// for nothing else. An authority never issues another authority. Keys are ECDSA P-256, because Go,
// NATS, Postgres and grpcurl support it.
package authority
