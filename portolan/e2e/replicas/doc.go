// Package replicas runs the built registry and allocator as processes on one real Postgres and real NATS servers, and takes them away under load:
// by kill -9, at each step of a write, and by stopping what they stand on. Afterwards it compares what clients were told with the log, the
// replicas, the stream and the allocator.
//
// The invariant of the tests: they wait for states, and nothing in them is decided by how long anything takes. Addresses that must outlive a process
// are those of doors (door_test.go), so that no port has to stay free.
package replicas
