// Package replicas runs the built registry and allocator as processes on a real Postgres and real
// NATS servers, and stops them under load: by kill -9, at each step of a write, and by stopping the
// servers that they depend on. Afterwards it compares the responses that clients got with the log,
// the replicas, the stream and the allocator.
//
// The invariant is that the tests wait for states, and that timing decides no result. An address
// that must outlive a process is the address of a door (door_test.go), so that no port has to stay
// free.
package replicas
