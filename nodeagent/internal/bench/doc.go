// Package bench measures the node agent as it is installed: its memory with many services, and the
// time from a committed change until the kernel has it. It is run by make bench-nodeagent, in a
// network namespace of its own, with the data plane of the machine's kernel (nftables; package
// dataplane/ipvs measures IPVS in an emulated kernel).
package bench
