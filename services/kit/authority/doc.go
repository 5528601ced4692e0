// Package authority issues the certificates that package identity reads: a
// certificate authority of one installation, its key in the hands of whoever
// runs it.
//
// The invariant: what it issues is a certificate of exactly one role, good for
// client and server, and for nothing else; it never issues another authority.
// Keys are ECDSA P-256, which everything that meets them understands: Go, NATS,
// Postgres, grpcurl.
package authority
