// Package rig runs the processes of a benchmark: a Postgres server with fsync, a NATS server, and
// the built daemons. Each is a process of its own, so that its CPU time can be told from the CPU
// time of the benchmark.
//
// The invariant is that at the end of [Flags.Measure] every process of the rig has ended, and every file
// that it made is removed.
package rig
