// Package program is the node agent as a program of its own, with the planes in the kernel and BGP, and
// its command cleanup.
//
// It is a package apart from nodeagent because those planes build for Linux only, and the library of BGP
// is large. The command line runs an agent with the userspace plane, and builds for other systems too.
package program
