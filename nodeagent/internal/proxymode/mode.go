package proxymode

import (
	"portolan.dev/nodeagent/dataplane/ipvs"
	"portolan.dev/nodeagent/dataplane/nftables"
)

// The proxy modes.
const (
	// Auto stands for the best mode that the node supports.
	Auto = "auto"
	// IPVS balances by IPVS in the kernel.
	IPVS = ipvs.Name
	// NFTables balances by nftables in the kernel.
	NFTables = nftables.Name
	// IPTables is another name of NFTables, its modern form.
	IPTables = "iptables"
	// Userspace is a proxy in this process. It always works.
	Userspace = "userspace"
)

// Names returns the modes that can be configured.
func Names() []string { return []string{Auto, IPVS, NFTables, IPTables, Userspace} }
