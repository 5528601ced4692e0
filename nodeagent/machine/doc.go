// Package machine is the machine below a node agent: its addresses, the programs that listen on it,
// and the modes in which its kernel can forward.
//
// Linux is the machine of every daemon. A simulation, such as faults/sim, has machines in memory.
// Therefore this package is public, while other packages that only the agent uses are internal.
//
// The invariant: an agent reads the state of its machine through Machine only, apart from its disk
// and its network connections. So agents on different machines can share a process.
//
// Below a plane in the kernel, kernel.Host has the same purpose. They are two interfaces, because a
// plane must not depend on the agent, and a test of a plane needs no agent.
package machine
