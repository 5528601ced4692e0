// Package dnssvc is the name server. It follows the registry and answers DNS questions for the
// names of services.
//
// Package zone turns objects into names when they change. Package server answers questions from the
// names. The daemon joins the two: it applies the change stream to the zone table, serves the API
// that explains answers, and reports the age of its data.
//
// The invariant is that a known name stays known. While the registry or the stream is away, the
// server answers from its last view and reports how old that view is. Before the first complete
// view it answers SERVFAIL for unknown names, never NXDOMAIN.
//
// The view is kept on disk as objects, not as names, because a start with other zones or ranges
// derives other names from them. An object that the view lacks may have been created while the
// server was away. The server therefore gives the registry time to answer before it answers
// NXDOMAIN. It must do so then, because clients with a search path give up at SERVFAIL.
//
// DNS over TLS has a certificate of its own for clients that have no certificate and do not check
// roles. Its flags are -listen-tls-cert and -listen-tls-key, because -tls-cert and -tls-key are the
// daemon's identity. Without these flags the daemon's own certificate is used, if it has a host
// name or an address.
//
// Transfers are allowed to listed addresses, to holders of a key (TSIG), or, if both are
// configured, to holders of a key at a listed address. A key beside a list of addresses narrows the
// permission. Signed ordinary questions get signed answers too, because other makers' secondaries
// sign the question for the SOA record before a transfer.
//
// Not built, and why:
//
//   - Completion of short names on the server by the client's namespace, as CoreDNS's autopath
//     does. The answer would depend on the client, so every cache on the way would hand the answers
//     of one namespace to another, and the server would have to follow all pods. Clients set ndots
//     to 1 or 2 and use whole names.
//   - Padding of answers over TLS (RFC 8467). It hides the sizes of answers, which reveal little if
//     all clients ask for the services of one cluster, and it makes every answer at least 468 bytes
//     long.
//   - DNS over HTTPS and over QUIC. Resolvers that speak them to a server also speak DNS over TLS.
//   - Other ways than a file to agree on a key with a secondary (TKEY, GSS-TSIG, SIG(0)), and new
//     keys without a restart. There are few secondaries, and their keys seldom change.
//   - Transfers of differences only (IXFR). Zones can be copied whole, and secondaries are notified
//     of changes at most once a second.
package dnssvc
