// Package forward asks other name servers for other people's names, and remembers what they say for as long as they say it holds.
//
// Several servers stand in for each other: one that fails is left alone for a while, and asked again when the while is over or when none is
// left. Questions that are asked at the same time are asked once. The one invariant: memory is bounded whatever is asked, and a question
// never goes round in a circle; a server that turns out to be ourselves is never asked again.
//
// Servers may be asked over TLS (RFC 7858), which needs no more than a certificate to believe. When
// servers fail or are slow an answer is given beyond its time, for a bounded time (RFC 8767): an old
// address works more often than none.
package forward
