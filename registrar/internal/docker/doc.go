// Package docker is the source of workloads that run as containers of a Docker engine on this node.
//
// The package makes five requests over the engine's unix socket: the version, the list of running
// containers, one container, the stream of events, and a ping that finds a connection that hangs. It has a
// client of its own for them. The engine's Go client was the alternative. It adds some 67 packages and
// 1.2 MB to the program for the same requests, and its types change with its versions, while the fields
// that are read here are the same from API version 1.24 to the newest.
//
// # Events are hints
//
// After any event about a container, the source inspects that container once and replaces its stored state
// with the answer. So an event that is lost, repeated or late costs time and never correctness: all
// containers are listed at the start, after each reconnect and periodically. Sources that apply events as
// changes keep ghosts for ever (gliderlabs/registrator#277, #325), because engines do lose events.
//
// Only the events show that a container was asked to stop. The engine sends the signal to the container,
// sends an event, and waits. Until the container ends, its state is "running". Therefore the source keeps
// the times of signals: a container is terminating if it was sent a signal that ends programs after it was
// started. Both times are by the engine's clock, so the order in which events and answers arrive does not
// matter. An engine repeats its newest 256 events to a new reader, so the source learns of signals from
// before its own start.
//
// # Files
//
// client.go has the requests and engine.go the fields of their answers. source.go connects and reconnects,
// watch.go follows the containers over one connection, and inbox.go collects events for it. workload.go
// makes a workload of a container from its labels (labels.go and variables.go), ports (ports.go), addresses
// (address.go and published.go) and signals (signals.go).
package docker
