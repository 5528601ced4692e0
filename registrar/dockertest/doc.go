// Package dockertest has containers and engines of Docker for tests.
//
// A [Lab] makes its containers at the engine of the machine, because an engine of each test would take
// seconds to start and a namespace for its rules. Everything in a lab has the lab's mark in its name, so
// labs do not disturb each other, and is removed at the end of the test. A [Sequence] is a random history
// of a lab's containers. An [Engine] is an engine of a test that stops it or keeps its networks in a
// namespace.
//
// The only image is busybox of the machine, since an engine in a test has no registry of images.
package dockertest
