// Package certs has the certificates that edges show to clients, and the certificates of authorities with which
// they verify backends.
//
// A certificate is a Secret in the namespace of its service, or a pair of files in a folder of the edge.
// Both are read again when they change, for new handshakes: connections continue, and clients resume their
// sessions. The invariant: a valid certificate is replaced only by a valid certificate, or removed with its
// Secret or files. A file that is half written replaces nothing. If some certificates of a service cannot be
// used, the others are served, and [Store.Problems] describes the problems.
//
// A handshake needs no lock: it reads a state that never changes, and changes make another one.
//
// The store makes the keys of session tickets. The keys that crypto/tls makes for each configuration would be lost
// with each change of a service's settings, which makes a new configuration. Keys are derived for each namespace
// and list of certificates, so that a ticket of one service is void at another. Edges do not share keys: a client
// that reaches another edge makes a full handshake.
package certs
