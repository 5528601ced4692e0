// Package listen accepts the connections of one address and port, and brings them to the point where
// a layer above can serve them: the client's address is known, it may connect, and TLS is done.
//
// A client in a range of Settings.ProxyFrom is a load balancer in front. It must send a PROXY header
// (version 1 or 2), which names the client it connects for. A header of any other client is never
// believed: it is data, which the layer above refuses or passes on as bytes. Source ranges apply to
// the client that the header names. A header that names no client (LOCAL, UNKNOWN) is the load
// balancer's own check, and is admitted, because who may name any client may as well name one that is
// admitted.
//
// What a client can occupy before it has proved to be one is bounded in time (Options.HandshakeTimeout
// for the PROXY header and TLS together) and in number. If there are too many unfinished handshakes,
// the oldest is reset, so that clients that send nothing do not keep out those that do.
//
// Settings change in place. A connection has the settings of the time at which it was accepted.
package listen
