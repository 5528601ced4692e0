// Package probe has single attempts to find out whether a program answers at a port: it accepts a
// connection (TCP), completes a handshake (TLS), answers a request with a status from 200 to 399
// (HTTP, HTTPS), or says that it is serving (the health protocol of gRPC).
//
//	check := probe.HTTP(probe.Get{URL: "http://10.0.0.1:8080/healthz"})
//	err := check(ctx)
//
// Parse reads a whole probe, check and timing, from one line of text, as labels of containers, unit
// files and flags have it:
//
//	found, err := probe.Parse("http://:8000/healthz period=5s failures=2")
//
// The line is a URL followed by options. The alternative, options in the query of the URL, would leave
// no room for queries in the paths of HTTP checks.
//
// A caller decides when to check, for how long, and how many failures matter. Each attempt opens a
// connection of its own, because the program behind an older connection may have been replaced.
// Certificates are not verified: a check asks whether a program serves, not for its identity. The size of
// an answer and of an error's text is bounded, because any program may be behind the port.
package probe
