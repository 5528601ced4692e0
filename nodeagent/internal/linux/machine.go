package linux

import (
	"context"
	"errors"
	"io"
	"net"

	"golang.org/x/sys/unix"

	"portolan.dev/nodeagent/dataplane/host"
	"portolan.dev/nodeagent/dataplane/ipvs"
	"portolan.dev/nodeagent/dataplane/kernel"
	"portolan.dev/nodeagent/dataplane/kernelmode"
	"portolan.dev/nodeagent/dataplane/nftables"
	"portolan.dev/nodeagent/internal/bgp/speaker"
	"portolan.dev/nodeagent/internal/handover"
	"portolan.dev/nodeagent/internal/neighbor"
	"portolan.dev/nodeagent/machine"
)

// Machine is the machine of this process.
type Machine struct{ machine.Userspace }

// WatchAddresses implements machine.Machine.
func (Machine) WatchAddresses(ctx context.Context, changed func()) error {
	return host.WatchAddresses(ctx, changed)
}

// Neighbors implements machine.Machine.
func (Machine) Neighbors(i machine.Interface, v6 bool) (machine.Neighbors, error) {
	if v6 {
		return neighbor.OpenNDP(i)
	}
	return neighbor.OpenARP(i)
}

// OpenSpeaker implements machine.Machine.
func (Machine) OpenSpeaker(o machine.SpeakerOptions) (machine.Speaker, error) { return speaker.Open(o) }

// HandOvers implements machine.Machine.
func (Machine) HandOvers() (machine.HandOvers, error) { return handover.Open("") }

// LocalRoutes implements machine.Machine.
func (Machine) LocalRoutes() (machine.LocalRoutes, error) {
	r, err := host.NewRoutes(host.ProxyRoutes)
	if err != nil { // r is a nil pointer, which is not a nil LocalRoutes
		return nil, err
	}
	return r, nil
}

// claimName is the name of the socket that marks that an agent runs in a network namespace. The kernel closes it with
// the agent. As its first character says, it is no file.
const claimName = "@portolan-nodeagent"

// Claim implements machine.Machine.
func (Machine) Claim() io.Closer {
	lis, err := net.ListenUnix("unix", &net.UnixAddr{Name: claimName, Net: "unix"})
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		return nil
	case err != nil: // without such sockets nothing is known of others
		return io.NopCloser(nil)
	}
	return lis
}

// Locals implements machine.Machine.
func (Machine) Locals(o kernelmode.Options) (machine.Locals, error) {
	l, err := kernel.OpenLocals(o)
	if err != nil { // l is a nil pointer, which is not a nil machine.Locals
		return nil, err
	}
	return l, nil
}

// Modes implements machine.Machine.
func (Machine) Modes() []kernelmode.Mode {
	return []kernelmode.Mode{
		kernel.Mode(ipvs.Name, ipvs.New, ipvs.OpenPredecessor, ipvs.HasState),
		kernel.Mode(nftables.Name, nftables.New, nftables.OpenPredecessor, nftables.HasState),
	}
}
