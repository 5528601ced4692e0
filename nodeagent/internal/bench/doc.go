// Package bench measures the node agent as it is installed: how much memory it
// takes with many services, and how long a committed change takes until the
// kernel has it. It is run by make bench-nodeagent, in a network namespace of its
// own, with the data plane that the machine's kernel has (nftables: IPVS is
// measured in an emulated kernel by the package dataplane/ipvs).
package bench
