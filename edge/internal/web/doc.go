// Package web is the layer-7 proxy of an edge: HTTP/1.1, HTTP/2, gRPC and WebSockets.
//
// A Server is one listening port of a service. It gets accepted connections, past the PROXY header and
// the TLS handshake, and distributes their requests over the backends of a pool. A request is a session
// of the pool, so that schedulers count requests, and two requests of a connection can go to different
// backends.
//
// There are two paths. The reference is net/http's server with httputil.ReverseProxy. It serves
// everything. The fast path serves ordinary HTTP/1.1 requests. If it meets anything else, it gives the
// connection, with the bytes that it has read, to the reference. A test sends the same requests over both paths and
// compares the bytes that backends and clients get.
//
// Decisions:
//
//   - One strict parser checks all requests of HTTP/1 (head.go, chunked.go). net/http accepts requests
//     that another server could divide differently: a length beside a transfer coding, folded fields,
//     lines without CR. The guard runs the parser over all bytes for the reference, and answers a request
//     that the parser refuses with 400. Rejected: a check of parsed requests in a handler, because net/http
//     has repaired faults by then and does not report them.
//   - Changed settings apply to the next request of each connection. No connection ends, and no request, because clients
//     lose requests that they send while a connection ends. Rejected: a server for each version of the settings,
//     whose connections end when the settings change. Only the reference keeps the idle timeout of a connection
//     between requests, because net/http does.
//   - X-Forwarded-For gets the client's address appended, X-Forwarded-Proto and -Port are replaced. A
//     backend can trust the last address only. The edge keeps earlier addresses, as clouds do, because
//     there may be other proxies in front of it.
//   - A request is sent to a second backend only if the first backend cannot have begun to serve it: no
//     connection could be made, or an idle connection turned out to be closed and the request is idempotent
//     and without a body.
//   - Fields that a Connection field names are removed, because they are for one connection. Trailers that are not
//     announced by a Trailer field are removed from requests.
package web
