// Package source is the contract between the registrar and the sources of its workloads, such as a Docker
// engine or systemd.
//
// A source reports all its workloads each time: a [Report] replaces the previous one. The registrar compares
// the newest report with the registry and writes the difference. So a source keeps no state of the registry,
// a missed event costs a delay and not a wrong object, and after a crash of the registrar the first report is
// enough to find the workloads that have ended meanwhile.
//
// The alternative was that sources report events: "started", "stopped". A registrator of this kind that loses
// an event keeps the object for ever (gliderlabs/registrator#277, #325), because it never compares the two
// sides again. A report of all workloads costs more than an event, but a node has at most hundreds of
// workloads, and they are in memory.
//
// Package sourcetest checks a source against this contract.
package source
