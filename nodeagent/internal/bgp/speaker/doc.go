// Package speaker keeps sessions of BGP by the library github.com/osrg/gobgp. It advertises the
// addresses that it is told, and takes no routes.
//
// The invariant: a peer learns the marker "end of routes" only after all routes that the agent wanted
// when the session began. With graceful restart the peer drops what it has kept when it reads the
// marker, so a speaker is opened with its first routes, and opens the sessions after them.
//
// The node opens the connections, so nothing listens, except that BFD receives packets on UDP port
// 3784. What a peer advertises is refused by policy, and goes to no other peer. A peer that advertises
// more than maxReceived routes loses its session until the agent restarts, because the library keeps
// refused routes in memory.
//
// The library is chosen, not a hand-off to FRR or BIRD. A hand-off needs a template of a configuration
// for each version of that program. Each node has a second program to install, supervise and upgrade,
// and the state of the sessions has to be read from its text output. The library costs this package, 59
// more packages and 5 MB (a quarter) in the program of the agent. Nothing else links it, which
// portolan/internal/walls tests, and the command line runs agents without it. A third way is a speaker
// of our own. It needs fewer packages, but we would own the code that reads messages of others.
//
// Two properties of the library decide settings here. A speaker that may have been restarted waits for
// the end of the routes of all peers, also of those that are down: deferral bounds that, since there
// is nothing to wait for. And it promises that it has gone on forwarding only in its first session, so
// a session that breaks later without the agent costs its routes the time of a new handshake.
package speaker
