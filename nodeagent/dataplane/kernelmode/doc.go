// Package kernelmode is the contract between an agent and the planes in the kernel: the settings of a
// plane, and the reports that only such planes make.
//
// The invariant: it imports nothing of a kernel. So an agent that has only the userspace plane, as in
// `portolan dev`, builds for every system, and without the libraries of Linux' kernel.
package kernelmode
