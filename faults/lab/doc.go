// Package lab runs an installation of Portolan for fault tests: Postgres with a streaming standby,
// three NATS servers, two registries, an allocator, two endpoint controllers, two name servers, and
// a node agent for each data plane that this kernel has.
//
// Two designs were possible:
//
//   - All processes share a network namespace, and each connection passes a proxy of the test (a
//     door, as in portolan/e2e/replicas). It needs no root. But a proxy handles connections only.
//     It cannot cut UDP or one direction, and clients of a closed proxy get a refusal, whereas a
//     cut cable is silent.
//   - Each process is a machine: it has a network namespace and an address of its own, and the hub
//     between them routes. It needs root. Two machines are cut off from each other by one element
//     of a set in the hub's packet filter, in one direction or both, for all protocols.
//
// This package uses the second design, because silence is the hardest fault to survive. Package
// portolan/e2e/labtest provides the namespaces, routes and processes.
//
// All connections between daemons and to NATS, and the registries' connections to Postgres, are
// mutual TLS. Each machine has a certificate for its role, issued as by portolan certs. NATS
// servers have the configuration that portolan certs nats-config prints.
//
// Faults affect a Machine (Kill, Pause, Fill, Rotate, Downgrade) or a path between two machines
// (Lab.Cut, Lab.Lose, Lab.Throttle). Lab.FailOver fails Postgres over as an operator's tool would.
//
// Some faults are not possible with this kernel. It cannot delay packets by a fixed time (sch_netem
// is not built), so a slow path is a token bucket (sch_tbf) with a queue that first delays packets
// and then drops them. The packet filter drops the packets of a lossy path at random. Wall clocks
// do not jump: a time namespace moves CLOCK_MONOTONIC and CLOCK_BOOTTIME only, and libfaketime
// replaces functions of the C library, which static Go programs do not call. No file system here
// has a slow fsync: the kernel has neither device mapper nor nbd, a library that is preloaded into
// Postgres would need a C compiler on each machine that runs the tests, and FUSE would need a file
// system written for it. So a slow flush uses Postgres' commit_delay, which waits at the point of
// fsync.
package lab
