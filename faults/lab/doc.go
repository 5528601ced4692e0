// Package lab runs an installation of Portolan for fault tests: Postgres with a streaming standby,
// three NATS servers, two registries, an allocator, two endpoint controllers, two lbctls, two name
// servers, and a node agent for each data plane that the kernel supports.
//
// Two designs were possible:
//
//   - All processes share a network namespace, and each connection passes through a proxy of the
//     test, as in portolan/e2e/replicas. This design needs no root. But a proxy handles connections
//     only. It cannot cut UDP or a single direction, and a closed proxy refuses connections,
//     whereas a cut cable drops packets without an answer.
//   - Each process is a machine. It has a network namespace and addresses of its own, and a
//     namespace called the hub routes between the machines. This design needs root. One element of
//     a set in the hub's packet filter drops all packets from one machine to another, for all
//     protocols.
//
// This package uses the second design, because dropped packets are harder to survive than refused
// connections. Package portolan/e2e/labtest provides the namespaces, routes and processes.
//
// All connections between daemons and to NATS, and the registries' connections to Postgres, use
// mutual TLS. Each machine has a certificate for its role, issued as by portolan certs. NATS
// servers use the configuration that portolan certs nats-config prints.
//
// Faults affect a Machine (Kill, Pause, Fill, LoseDisk, Rotate, Downgrade) or a path between two machines
// (Lab.Cut, Lab.Lose, Lab.Throttle). Lab.FailOver fails Postgres over as an operator's tool would.
//
// The tests' kernel cannot produce some faults, and the lab uses the nearest fault that it can:
//
//   - It cannot delay packets by a fixed time, because sch_netem is not built. A slow path is a
//     token bucket (sch_tbf) with a queue that first delays packets and then drops them.
//   - Packets of a lossy path are dropped at random by the packet filter.
//   - Wall clocks do not jump. A time namespace moves CLOCK_MONOTONIC and CLOCK_BOOTTIME only, and
//     libfaketime replaces functions of the C library, which static Go programs do not call.
//   - There is no file system with a slow fsync. The kernel has neither device mapper nor nbd, a
//     library that is preloaded into Postgres would need a C compiler on each machine that runs the
//     tests, and FUSE would need a file system written for this purpose. A slow flush uses
//     Postgres' commit_delay, which waits at the point of fsync.
package lab
