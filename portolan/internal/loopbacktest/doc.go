// Package loopbacktest gives each installation of a test a network of its own in the loopback range, so
// that tests of several packages run at the same time.
//
// The claim of a network is a listener. The alternative, a number for each package, would have to be
// given by hand, and two runs on one machine would share it.
package loopbacktest
