// Package speaker keeps BGP sessions with the library github.com/osrg/gobgp. It advertises the addresses
// that the agent passes, and accepts no routes.
//
// The invariant: the speaker sends the marker "end of routes" only after all routes that the agent wanted
// when the session began. With graceful restart, a peer drops the routes that it has kept when it reads the
// marker. So a speaker is opened with its first routes, and opens the sessions after them.
//
// The node opens the connections, so it does not listen, except that BFD receives packets on UDP port 3784.
// A policy refuses all routes of peers, and passes them to no other peer. A peer that advertises more than
// maxReceived routes loses its session until the agent restarts, because the library keeps refused routes in
// memory.
//
// The alternative to the library was a hand-off to FRR or BIRD. A hand-off needs a template of a configuration
// for each version of that program, each node has a second program to install, supervise and upgrade, and the
// state of the sessions has to be read from its text output. The library costs this package, 59 more packages
// and 5 MB (a quarter) in the program of the agent. Nothing else links it, which portolan/internal/walls
// tests, and the command line runs agents without it. A speaker written here would need fewer packages, but
// its parser of messages would be ours to maintain.
//
// Two properties of the library determine settings here. First, a speaker that may have been restarted waits
// for the end of the routes of all peers, even of unreachable peers. It needs none of these routes, so
// deferral limits the wait. Second, the speaker announces only in its first session that it has gone on
// forwarding. So if a later session breaks while the agent does not run, its routes are lost for the time of
// a new handshake.
package speaker
