// Package server answers DNS questions over UDP and TCP from the names of package zone.
//
// There are two ways to an answer. The ordinary handler unpacks the question, thinks in dns.Msg and can do everything; it is the reference.
// The fast path reads the question where it lies and writes the answer beside it, for the questions that are asked all day; whatever is odd
// about a packet makes it decline. The one invariant: where the fast path does not decline, its answer is the handler's, but for the order
// of addresses; a fuzz test holds them together.
//
// A worker reads a batch of datagrams and writes a batch of answers with one system call each. A question that has to wait for somebody
// else gets a goroutine of its own, and there is a bound on those. A server with a goroutine for each packet, which is what DNS libraries
// offer, spends more on goroutines than on answers.
package server
