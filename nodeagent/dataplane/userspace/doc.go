// Package userspace is the data plane without requirements: a TCP and UDP proxy in this process,
// which needs no kernel modules and no rules, and no root for addresses that are local already.
//
// The proxy listens on every frontend itself, so a frontend's address must belong to the machine
// (on Linux, all of 127.0.0.0/8 does), or Locals must make it local, and its port must be free. A proxy
// differs from planes in the kernel: backends see the node's address; forwarding ends with the process; a
// frontend without backends is a closed port, which refuses, because a socket cannot drop packets silently;
// and if a dial fails, the proxy tries another backend, which no kernel plane can do.
//
// A program of the node uses the virtual address that it connects to as its own, so such a client counts as
// internal.
//
// A socket at an address of the machine's network opens a service to that network. Options.Ranges
// limits the addresses, because the addresses of a service are chosen by others than the owner of
// the machine. The plane checks them, and not the plan, because planes in the kernel open no
// sockets, and because every way by which a service gets an address ends here.
//
// The invariant: a frontend's socket is open if and only if one of its servers has a backend with a
// weight above 0. Connections belong to backends, not to servers, so a change of a server in place
// never affects them.
package userspace
