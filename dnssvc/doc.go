// Package dnssvc is the name server: it follows the registry and answers by DNS for the names of services.
//
// Package zone turns objects into names when they change, package server answers questions from them. The daemon joins the two: it hands
// over what the change stream brings, serves the API that explains answers, and says how fresh they are.
//
// The one invariant: what was once known stays known. When the registry or the stream is away the server goes on with what it has and says how
// old that is; before it has seen a complete view it answers SERVFAIL for names that it does not know, never that they do not exist.
//
// The view is kept on disk as the objects that names come from, not as names: a start with other
// zones or ranges makes other names of them. A name that the view lacks may have come while the
// server was away, so absence is not believed before the registry has had time to answer. It must
// be believed then: clients with a search path give up at SERVFAIL.
//
// DNS over TLS has a certificate for clients that have none and that know no roles. The flags of this
// certificate are -listen-tls-cert and -listen-tls-key, because -tls-cert and -tls-key are the daemon's
// identity. Without them the daemon's own certificate serves, if it has a host name or an address.
//
// Transfers are for listed addresses, for holders of a key (TSIG), or, if both are configured, for
// holders of a key at a listed address. A key beside a list of addresses narrows the permission.
// Ordinary questions that are signed get signed answers too, because secondaries of other makers
// sign the question for the SOA record before a transfer.
//
// Not built, and why:
//
//   - Completing short names on the server by the namespace of the client, as CoreDNS's autopath does:
//     an answer would depend on who asks, so that every cache on the way would hand the answers of one
//     namespace to another, and the server would have to follow all pods. Clients set ndots to 1 or 2
//     and use whole names.
//   - Padding of answers over TLS (RFC 8467): it hides the sizes of answers, which say little where all
//     clients ask for the services of one cluster, and it makes every answer at least 468 bytes long.
//   - DNS over HTTPS and over QUIC: resolvers that speak them to a server also speak DNS over TLS.
//   - Other ways to agree on a key with a secondary than a file (TKEY, GSS-TSIG, SIG(0)), and new
//     keys without a restart: there are few secondaries, and their keys seldom change.
//   - Transfers of differences only (IXFR): zones can be copied whole, and secondaries are told of
//     changes at most once a second.
package dnssvc
