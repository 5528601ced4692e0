// Package machine is the machine below a node agent: its addresses, its interfaces with their
// neighbours, its sessions with routers, the programs that listen on it, and the modes in which its
// kernel can forward.
//
// Package linux has the machine of every daemon. `portolan dev` uses Userspace, the same machine
// without its kernel. A simulation, such as faults/sim, has machines in memory.
// Therefore this package is public, while other packages that only the agent uses are internal.
//
// The invariant: an agent reads the state of its machine through Machine only, apart from its disk
// and its network connections. So agents on different machines can share a process.
//
// The tables of sockets are parsed here, because prometheus/procfs, which is linked too, takes 2.6
// times as long and five times as many allocations: it parses and keeps every connection.
//
// Below a plane in the kernel, kernel.Host has the same purpose. They are two interfaces, because a
// plane must not depend on the agent, and a test of a plane needs no agent.
package machine
