// Package listen accepts the connections of one address and port, and prepares them for a layer above: the
// client's address is known, the client may connect, and the TLS handshake is complete.
//
// A client in a range of Settings.ProxyFrom is a load balancer in front of the edge. It must send a PROXY header
// (version 1 or 2), which names the client of its connection. A header of any other client is never
// believed: it is data, which the layer above refuses or passes on as bytes. Source ranges apply to
// the client that the header names. A header that names no client (LOCAL, UNKNOWN) is the load
// balancer's own check, and is admitted, because a load balancer that may name any client could also name an
// admitted one.
//
// Unfinished handshakes are bounded in time (Options.HandshakeTimeout for the PROXY header and TLS together) and
// in number. If there are too many, the oldest connection is reset, so that clients that send nothing do not keep
// out clients that do.
//
// Settings change in place. A connection has the settings of the time at which it was accepted.
package listen
