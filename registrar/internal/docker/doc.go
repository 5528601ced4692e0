// Package docker is the source of workloads that run as containers of a Docker engine on this node.
//
// The engine is asked by four requests over its unix socket: its version, the running containers, one
// container, and the stream of events; a fifth, the ping, finds a connection that hangs. The client of
// these requests is written here. The engine's own Go client was the alternative: it adds some 67 packages
// and 1.2 MB to the program for the same requests, and its types change with its versions, while the
// fields that are read here are the same from API version 1.24 to the newest.
//
// # Events are hints
//
// An event about a container leads to one question about that container, whatever the event says, and the
// answer replaces what was known of it. So an event that is lost, or that comes twice or late, costs time
// and never correctness: the next complete list, which is made at the start, after each reconnect and
// periodically, repairs it. Sources that apply events as changes keep ghosts for ever
// (gliderlabs/registrator#277, #325), because engines do lose events.
//
// One thing is in the events only: that a container was asked to stop. The engine sends the signal, says so
// in an event, and waits; a question about the container shows it as running until it ends. Therefore the
// times of signals are kept, and a container is terminating if it has got a signal that ends programs since
// it was started. The comparison is by the engine's clock, so that the order in which events and answers
// arrive does not matter. Engines repeat their newest 256 events to a new reader, which is how signals from
// before the registrar's start become known.
//
// # Files
//
// client.go has the requests and engine.go the fields that are read of their answers. source.go connects
// again and again, watch.go keeps the view of one connection true, and inbox.go collects events for it.
// workload.go makes a workload of a container from its words (words.go and variables.go), ports (ports.go),
// addresses (address.go and published.go) and state (state.go and signals.go).
package docker
