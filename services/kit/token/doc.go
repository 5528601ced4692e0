// Package token has the secret of an installation in one process, which has no certificates. The
// process writes it to a file that only its user can read, and answers only clients that send it. Other
// users of the machine reach every port on loopback, but cannot read or change anything without the
// secret.
//
// A process makes a new token each time it starts. After the process has ended, another user could
// listen on its ports and receive the tokens of clients, but these tokens are no longer valid.
//
// The alternative, to listen on a Unix socket and ask the kernel for the peer's user (SO_PEERCRED),
// needs no secret. But the APIs are served over TCP, because clients of gRPC in every language, and
// grpcurl, can use it, and the kernel reports no user for a TCP connection. A Unix socket beside
// the port would protect nothing while the port is open. Certificates would also have to be given to
// every client, and are harder to configure than a header.
package token
