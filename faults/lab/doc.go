// Package lab runs an installation of Portolan that is meant to be broken: Postgres with a streaming standby,
// three NATS servers, two registries, an allocator, two endpoint controllers, two name servers, and a node agent
// for each data plane that this kernel has.
//
// Two shapes were possible:
//
//   - All processes share a network namespace, and each address leads through a proxy of the test (a door, as
//     portolan/e2e/replicas has them). It needs no root. But a door knows connections only: it cannot cut UDP or
//     one direction, and a program behind a shut door hears a refusal, where a cut cable is silent.
//   - Each process is a machine: it has a network namespace and an address of its own, and the hub between them
//     routes. It needs root. Two machines are cut off from each other by one element of a set in the hub's
//     packet filter, in one direction or both, whatever they speak.
//
// The second one is taken, because silence is the fault that is hardest to survive. Namespaces, routes and
// processes are those of portolan/e2e/labtest.
//
// All connections between daemons, NATS and the registries' to Postgres are mutual TLS: each machine has a certificate
// of its own role, issued as portolan certs does it, and NATS servers have what portolan certs nats-config prints.
//
// What fails is a Machine (Kill, Pause, Fill, Rotate, Downgrade) or a path between two (Lab.Cut, Lab.Lose, Lab.Throttle). Postgres
// fails over by Lab.FailOver, which acts as an operator's tool would.
//
// What this kernel cannot do: Linux has no device here that delays packets (sch_netem is not built), so a slow
// path is a token bucket (sch_tbf), whose queue delays and then drops. Loss is a random number in the packet
// filter. Wall clocks do not jump: a time namespace moves CLOCK_MONOTONIC and CLOCK_BOOTTIME only, and libfaketime
// replaces functions of the C library, which static Go programs do not call. No file system here has a slow fsync:
// the kernel has neither device mapper nor nbd, a library that is preloaded into Postgres would need a C compiler
// wherever the tests run, and FUSE a file system of our own. So a slow flush is Postgres' commit_delay, which waits
// where fsync does.
package lab
