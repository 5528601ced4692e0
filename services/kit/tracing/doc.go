// Package tracing follows one change through all daemons, as OpenTelemetry
// traces.
//
// A trace begins with a call to the registry. What is committed carries the W3C
// traceparent of its commit in the log, so that whoever applies the change,
// whenever that is, continues the trace: no daemon keeps a table of who asked for
// what, and a follower that reads the log later still knows. Calls between daemons
// carry it as gRPC metadata.
//
// Tracing is off unless an endpoint is given. Then a [Tracer] is nil, which all
// its methods understand, and [Start] looks for a span in the context and finds
// none: neither allocates.
//
// Chosen: a span below another one is begun with what that one was begun with
// (Start), instead of handing a tracer to every package, because the only code
// that needs one is where a trace enters a process.
package tracing
