// Package linux implements the machine of an agent that runs as a program of its own, with the planes in the
// kernel.
//
// It is a package apart from machine because it links the planes in the kernel, which build for
// Linux only, and the library of BGP, which is large.
package linux
