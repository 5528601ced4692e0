// Package registrytest is a fake registry for the tests of the endpoint controller, on a log in
// memory. It requires fences of the controller's writes, and can make writes fail or wait.
package registrytest
