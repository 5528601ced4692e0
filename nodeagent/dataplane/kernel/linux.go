package kernel

import (
	"net/netip"

	"portolan.dev/nodeagent/dataplane/host"
	"portolan.dev/nodeagent/dataplane/kernelmode"
	"portolan.dev/nodeagent/dataplane/packetfilter"
)

// linux is the default host of a plane.
type linux struct {
	host.Sysctls
	netns string
}

// Routes implements Host.
func (linux) Routes() (RouteTable, error) {
	r, err := host.NewRoutes(host.PlaneRoutes)
	if err != nil { // r is a nil pointer, which is not a nil RouteTable
		return nil, err
	}
	return r, nil
}

// Flows implements Host.
func (linux) Flows() (FlowTable, error) {
	c, err := host.NewConntrack()
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Filter implements Host.
func (l linux) Filter(ranges, standIns []netip.Prefix) (PacketFilter, error) {
	f, err := packetfilter.New(l.netns, ranges, standIns)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Remains implements Host.
func (l linux) Remains() (*packetfilter.Remains, error) { return packetfilter.ReadRemains(l.netns) }

// Advice implements Host.
func (linux) Advice() []kernelmode.Setting { return host.Advice() }
