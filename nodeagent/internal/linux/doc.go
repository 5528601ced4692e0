// Package linux is the machine of every agent that runs as a program of its own: Linux, whose kernel
// forwards.
//
// It is a package apart from machine because it links the planes in the kernel, which build for
// Linux only, and the library of BGP, which is large.
package linux
