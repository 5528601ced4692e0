// Package stream is layer 4: it passes the bytes of a client's connection on to a backend and back.
//
// The client's side may be TLS that listen has terminated, and the backend's side may be TLS that this
// package begins, each with or without the other. A PROXY header to the backend comes before TLS, as
// the protocol demands. A backend that refuses, does not answer, or fails its TLS handshake is left for
// another one, because no byte of the client was passed on so far. After that, a failure of either side
// resets the other, so that neither takes a broken stream for a complete one.
//
// A connection without bytes in either direction ends after the idle timeout. The server compares the
// kernel's counts of a connection's bytes now and then, so that neither a read nor a write costs
// anything for it. A connection ends at most a quarter of the timeout late, and never early. The
// timeout also ends connections whose peer is dead, so a server without one keeps those.
package stream
