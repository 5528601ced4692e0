// Package registrytest is a fake registry for the tests of the endpoint controller, on a log in
// memory. It serves the objects that the controller writes, and enforces versions and fencing as
// the real registry does.
package registrytest
