// Package dockertest has containers and engines of Docker for tests.
//
// A [Lab] makes its containers at the engine of the machine, because an engine for each test would take
// seconds to start and would need a network namespace. The name of everything in a lab has the lab's mark, so
// labs do not disturb each other. A [Sequence] is a random history of a lab's containers. An [Engine] is for
// tests that stop the engine or need its networks in a namespace.
//
// The only image has the machine's busybox, because tests have no registry of images.
package dockertest
