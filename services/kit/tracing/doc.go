// Package tracing traces a change through all daemons with OpenTelemetry.
//
// A trace begins with a call to the registry. A change in the log has the W3C traceparent of its
// commit, and every daemon that applies the change later continues the trace. No daemon needs to
// remember the requests behind changes, and a follower that reads the log later has the traceparent
// too. Calls between daemons carry it as gRPC metadata.
//
// Tracing is off unless an endpoint is given. Then the [Tracer] is nil. All its methods support
// that, and [Start] finds no span in the context. Neither allocates memory.
//
// A child span inherits its parent's sampling decision and tracer provider (Start). Therefore a
// Tracer is needed only where a trace enters a process, and is not passed to every package.
package tracing
