// Package identity is who a daemon is to others, and who others are to it:
// mutual TLS in which a certificate's URI SAN names a role, as SPIFFE does it
// (spiffe://<trust-domain>/<role>, spiffe://<trust-domain>/nodeagent/<node>).
//
// The invariant: with a Source, no byte of a call is read from anybody whose
// certificate is not of the same authority and in its time, and no call is sent
// to anybody whose certificate is not of the role that was meant. What a role may
// do is for services/access to say.
//
//	source, err := identity.Open(identity.Options{Files: files, Role: identity.Registry, Log: log})
//	conn, err := network.Dial(target, source.Peer(identity.Allocator))
//	server := rpc.NewServer(rpc.ServerOptions{Identity: source, …})
//
// A nil Source is the absence of all this: everything in the clear.
//
// Clients that know no roles, such as those of DNS over TLS, verify a server by its host name or address.
// For them a Source gives the daemon's certificate without asking for one of theirs (ServerTLS), and a
// Public reads a certificate of any authority.
//
// Servers are known by their role and not by their host name, because daemons
// move between addresses and share them; certificates may carry host names too,
// for clients that know no roles. The files are read again while the process
// runs, by content and not by time, so that a file that was replaced in any way
// counts; what cannot be used leaves the old one in place. go-spiffe would bring
// the workload API and its agent, which an installation from files has no use
// for.
package identity
