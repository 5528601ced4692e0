// Package certs has the certificates that edges show to clients, and those by which they verify
// backends.
//
// A certificate is a Secret in the namespace of its service, or a pair of files in a folder of the edge.
// Both are taken anew when they change, for new handshakes: connections go on, and clients resume their
// sessions. The invariant: a certificate that can be used is replaced by one that can be used, or goes
// with its Secret or files. A file that is half written replaces nothing. Of a service with several
// certificates those that can be used are served, and [Store.Problems] tells about the others.
//
// A handshake needs no lock: it reads a state that never changes, and changes make another one.
//
// Keys of session tickets are the store's and not those that crypto/tls makes for each configuration,
// because a change of a service's settings makes a new configuration. They are derived for each
// namespace and list of certificates, so that a ticket of one service is void at another. Edges do not
// share them: a client whose connection comes to another edge makes a full handshake.
package certs
