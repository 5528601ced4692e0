// Package token has the secret of an installation in one process, which has no certificates. The
// process writes it to a file that only its user can read, and answers only clients that send it.
// So other users of the machine, who reach every port on loopback, cannot read or change anything.
//
// A process makes a new token each time it starts. So a token is worth nothing after the process
// has ended, when another user could listen on its ports and receive the tokens of clients.
//
// The alternative, to listen on a Unix socket and ask the kernel for the peer's user (SO_PEERCRED),
// needs no secret. But the APIs are served over TCP, because clients of gRPC in every language, and
// grpcurl, can use it, and the kernel reports no user for a TCP connection. A Unix socket beside
// the port would protect nothing while the port is open. Certificates for one's own machine would
// have to be given to every client too, and are more than a header.
package token
