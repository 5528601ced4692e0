// Package server answers DNS questions over UDP, TCP and TLS from the names of package zone.
//
// There are two ways to an answer. The ordinary handler unpacks the question, thinks in dns.Msg and can do everything; it is the reference.
// The fast path reads the question where it lies and writes the answer beside it, for the questions that are asked all day; whatever is odd
// about a packet makes it decline. The one invariant: where the fast path does not decline, its answer is the handler's, but for the order
// of addresses; a fuzz test holds them together.
//
// A set that no transport carries whole is answered in part, without the flag of truncation: there is
// nowhere to ask for the rest, and clients take an answer with the flag for a failure. The parts
// rotate, so that all records are used. Parts by UDP would spare clients the way to TCP, but caches
// may remember what they were not given whole; so these are a bound that has to be configured.
//
// DNS over TLS is TCP with another first step: after the handshake a connection is read, answered and
// bounded like any other.
//
// A worker reads a batch of datagrams and writes a batch of answers with one system call each. A question that has to wait for somebody
// else gets a goroutine of its own, and there is a bound on those. A server with a goroutine for each packet, which is what DNS libraries
// offer, spends more on goroutines than on answers.
package server
