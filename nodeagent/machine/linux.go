package machine

import (
	"context"
	"net/netip"

	"portolan.dev/nodeagent/dataplane/host"
	"portolan.dev/nodeagent/dataplane/ipvs"
	"portolan.dev/nodeagent/dataplane/nftables"
	"portolan.dev/nodeagent/plan"
)

// Linux is the machine of this process.
type Linux struct{}

// Addresses implements Machine.
func (Linux) Addresses() ([]netip.Addr, error) { return interfaceAddresses() }

// WatchAddresses implements Machine.
func (Linux) WatchAddresses(ctx context.Context, changed func()) error {
	return host.WatchAddresses(ctx, changed)
}

// Listeners implements Machine.
func (Linux) Listeners() []plan.Frontend { return listeners() }

// Modes implements Machine.
func (Linux) Modes() []KernelMode {
	return []KernelMode{{ipvs.Name, ipvs.New, ipvs.Precede}, {nftables.Name, nftables.New, nftables.Precede}}
}
