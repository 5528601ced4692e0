// Package renewal gives daemons, workloads and monitors new certificates of the identity that they
// have.
//
// The invariant: a new certificate has exactly the identity, the host names and the addresses of
// the certificate that the caller presents, which the TLS connection has verified. Of the request
// only the public key counts, and the caller proves that it has the private key. So a stolen
// certificate gives no other identity. It lives on by renewals, though, until it is denied: each
// renewed certificate has the serial number of the first one of its row as its lineage, so that
// denying the first denies all of them.
//
// The registry signs, and not a daemon of its own, as SPIRE has one. Kubernetes does the same in its
// controller manager. All daemons already have a connection to the registry, and the registry is
// replicated, watched and backed up anyway. A daemon of its own would be one more to keep running, because
// certificates expire without it. The price is that an attacker who takes over the machine of a
// registry has the key of the issuer, and can be each daemon, each node agent and each workload until the
// issuer is replaced. The attacker cannot be an operator or viewer, NATS or Postgres, because identity
// refuses certificates of these roles from an issuer, on all machines. An attacker in a registry can write
// every object anyway, so the key adds only access to the traffic of other daemons.
package renewal
