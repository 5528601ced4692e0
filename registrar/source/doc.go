// Package source is the contract between the registrar and the places that it registers from, such as a
// Docker engine or systemd.
//
// A source reports everything that it sees, again and again: each [Report] replaces the one before. The
// registrar compares the newest report with the registry and writes the difference. So a source has no
// state of the registry to keep true, an event that it missed costs a delay and not a wrong object, and
// after a crash of the registrar the first report is enough to find what is gone meanwhile.
//
// The alternative was that sources report events: "started", "stopped". Registrators of that kind lose
// an event and keep its object for ever (gliderlabs/registrator#277, #325), because nothing compares the
// two sides again. A report of all workloads costs more than an event, but a node has hundreds of them
// and not more, and they are in memory.
//
// Package sourcetest checks a source against this contract.
package source
