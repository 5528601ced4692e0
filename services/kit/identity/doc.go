// Package identity authenticates daemons to each other. It implements mutual TLS in which the URI
// SAN of a certificate names a role, as in SPIFFE (spiffe://<trust-domain>/<role>,
// spiffe://<trust-domain>/nodeagent/<node>).
//
// The invariant: with a Source, a server reads no byte of a call unless the client's certificate is
// of a trusted authority and valid now, and a client sends no call unless the server's certificate
// has the expected role. The rules for the calls that a role may make are in services/access.
//
//	options := identity.Options{Files: files, Role: identity.Registry, Log: log}
//	source, err := identity.Open(options)
//	conn, err := network.Dial(target, source.DialOption(identity.Allocator))
//	server := rpc.NewServer(rpc.ServerOptions{Identity: source, Authorizer: access.Methods(), …})
//
// With a nil Source nothing is encrypted or authenticated.
//
// Clients that do not use roles, such as clients of DNS over TLS, verify a server by its host name
// or address. For them a Source serves the daemon's certificate without requesting one from the
// client (ServerTLS), and a Public serves a certificate of any authority.
//
// Servers are identified by role and not by host name, because daemons move between addresses and
// share them. Certificates may contain host names too, for clients that do not use roles. The files
// are read again while the process runs. They are compared by content and not by time, so that a
// file may be replaced in any way. If the new files cannot be used, the old certificate stays in
// use. go-spiffe would add the workload API and its agent, which an installation with files does
// not need.
package identity
