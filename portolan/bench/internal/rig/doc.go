// Package rig runs the processes of a benchmark: a Postgres server with fsync, a NATS server, and
// the built daemons. Each is a process of its own, so that its CPU time can be told from the CPU
// time of the benchmark.
//
// The invariant is that [Rig.Close] ends every process and removes every file that the rig made.
package rig
