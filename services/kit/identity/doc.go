// Package identity authenticates daemons to each other. It implements mutual TLS in which the URI
// SAN of a certificate names a role, as in SPIFFE (spiffe://<trust-domain>/<role>,
// spiffe://<trust-domain>/nodeagent/<node>, spiffe://<trust-domain>/registrar/<node>/<namespace>).
//
// The invariant: with a Source, a server reads no byte of a call unless the client's certificate is
// of a trusted authority, valid now and not revoked. A client sends no call unless this is true for the
// server's certificate, and the certificate has the expected role. The rules for the calls that a role
// may make are in services/access.
//
//	options := identity.Options{Files: files, Role: identity.Registry, Log: log}
//	source, err := identity.Open(options)
//	conn, err := network.Dial(target, source.DialOption(identity.Allocator))
//	server := rpc.NewServer(rpc.ServerOptions{Identity: source, Authorizer: access.Methods(), …})
//
// HTTP servers use MutualTLS and Client, with the same invariant.
//
// With a nil Source nothing is encrypted or authenticated.
//
// A Source has a DenyList with the revoked certificates. services/changes and the registry fill it.
// This package only looks certificates up, at the handshake, at each call, and for open streams when
// the list changes. Most denials name an identity and the time until which its certificates were
// issued, because a list of serial numbers would miss a stolen certificate that was renewed.
//
// Clients that do not use roles, such as clients of DNS over TLS, verify a server by its host name
// or address. For them a Source serves the daemon's certificate without requesting one from the
// client (ServerTLS), and a Public serves a certificate of any authority.
//
// A Source renews its certificate itself (KeepRenewed): after two thirds of its life it makes a key,
// asks a registry for a certificate of it, uses both at once and stores them in a Store. It uses the
// configured or the stored certificate, depending on which was issued later, so an operator can always
// replace a renewed certificate by new files. A registry signs with the issuer. A certificate of the
// issuer is accepted only for the roles that renew themselves (Renewing). An agent beside each daemon,
// as in SPIRE, would be a second process that has to run before certificates expire.
//
// Servers are identified by role and not by host name, because daemons move between addresses and
// share them. Certificates may contain host names too, for clients that do not use roles. The files
// are read again while the process runs. They are compared by content and not by time, so that a
// file may be replaced in any way. If the new files cannot be used, the old certificate stays in
// use. go-spiffe would add the workload API and its agent, which an installation with files does
// not need.
package identity
