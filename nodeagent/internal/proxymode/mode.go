package proxymode

import "portolan.dev/nodeagent/dataplane/kernelmode"

// The proxy modes.
const (
	// Auto stands for the best mode that the node supports.
	Auto = "auto"
	// IPVS balances by IPVS in the kernel.
	IPVS = kernelmode.IPVS
	// NFTables balances by nftables in the kernel.
	NFTables = kernelmode.NFTables
	// IPTables is another name of NFTables, its modern form.
	IPTables = "iptables"
	// Userspace is a proxy in this process. It always works.
	Userspace = "userspace"
)

// Names returns the modes that can be configured.
func Names() []string { return []string{Auto, IPVS, NFTables, IPTables, Userspace} }
