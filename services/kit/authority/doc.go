// Package authority issues the certificates that package identity uses. It implements the
// certificate authority of one installation. The operator of the installation keeps its key.
//
// The invariant: an issued certificate is for exactly one role, valid for clients and servers and
// for nothing else. An authority never issues another authority. Keys are ECDSA P-256, because Go,
// NATS, Postgres and grpcurl support it.
//
// An issuer is a second authority. The registries have its key, so that certificates are renewed
// without the operator. Its certificate is self-signed and has the URI SAN
// spiffe://TRUST-DOMAIN/issuer. By this URI package identity limits it to the roles that renew
// themselves, so that an attacker who takes over a registry gets no certificate of an operator. An
// intermediate authority below the operator's was rejected, because the certificates of existing
// authorities allow none (MaxPathLen 0), and a new authority would require new certificates for all
// processes.
package authority
