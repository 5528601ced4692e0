// Package server answers DNS questions over UDP, TCP and TLS from the names of package zone.
//
// A question is answered in one of two ways. The ordinary handler unpacks it into a dns.Msg and
// supports everything; it is the reference. The fast path serves frequent questions: it reads the
// question in place and writes the answer into a buffer. It declines any unusual packet. The
// invariant is that if the fast path does not decline, its answer equals the handler's except for
// the order of addresses. A fuzz test compares the two.
//
// A set that no transport carries whole is answered in part. The answer has no TC flag, because no
// other transport has the remaining records, and clients treat a flagged answer as a failure. The
// parts rotate, so that all records are used. Parts by UDP would save clients the way to TCP, but
// caches might keep such a part as the whole set. They are therefore sent only if a bound is
// configured.
//
// DNS over TLS is TCP after a handshake: the connection is then read, answered and bounded like any
// other.
//
// A worker reads a batch of datagrams and writes a batch of answers with one system call each. A
// question that waits for an upstream server gets a goroutine of its own, and the number of these
// is bounded. DNS libraries offer a server with one goroutine per packet, which spends more time on
// goroutines than on answers.
package server
