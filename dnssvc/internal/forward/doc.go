// Package forward asks other name servers for names outside of the zones, and caches their answers
// for the time of their TTL.
//
// Several servers stand in for each other. A server that fails is not asked for a while, unless
// none is left. Identical questions at the same time are asked once. Two invariants hold: memory is
// bounded for any questions, and a question never goes round in a circle, because an upstream that
// turns out to be this server is never asked again.
//
// Servers can be asked over TLS (RFC 7858), which requires only a trusted authority. If servers
// fail or are slow, an expired answer is given for a bounded time (RFC 8767), because an old
// address works more often than none.
package forward
