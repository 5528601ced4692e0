// Package userspace is the data plane that needs nothing: a TCP and UDP proxy in
// this process, without root, modules or rules.
//
// It listens on every frontend itself, so a frontend's address must be one of
// the machine (all of 127.0.0.0/8 is, on Linux) and its port free. What follows
// from being a proxy, and is different from planes in the kernel: backends see
// the node's address; forwarding ends with the process; a frontend without
// backends is a closed port, which refuses, because a socket cannot be silent;
// a dial that fails is tried at another backend, which no kernel plane can do.
//
// The invariant: a frontend's socket is open exactly while one of its servers
// has a backend with weight. Connections belong to backends, not to servers, so
// that changing a server in place never touches them.
package userspace
