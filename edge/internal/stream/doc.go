// Package stream is layer 4: it passes the bytes of a client's connection on to a backend and back.
//
// Each side may be TLS or not: package listen has terminated the client's TLS, and this package begins TLS with the
// backend. A PROXY header to the backend comes before TLS, as the protocol demands. If a backend refuses, does not
// answer, or fails its TLS handshake, another backend is tried, because no byte of the client was passed on so
// far. After that, a failure of either side resets the other side, so that neither takes a broken stream for a
// complete one.
//
// A connection without bytes in either direction ends after the idle timeout. The server compares the
// kernel's counts of a connection's bytes eight times per timeout, so that reads and writes set no timers. A
// connection ends at most a quarter of the timeout late, and never early. The timeout also ends connections with a
// dead peer. A server without a timeout keeps those.
package stream
