package nodeagent

import (
	"errors"
	"log/slog"
	"net/netip"

	"github.com/prometheus/client_golang/prometheus"

	"portolan.dev/nodeagent/dataplane/kernelmode"
	"portolan.dev/nodeagent/internal/addresses"
	"portolan.dev/nodeagent/internal/bgp"
	"portolan.dev/nodeagent/internal/localproxy"
	"portolan.dev/nodeagent/internal/proxymode"
	"portolan.dev/nodeagent/machine"
	"portolan.dev/nodeagent/plan"
)

// proxyMode returns the configuration of the proxy mode. Only the userspace plane uses the metrics. shared is set if
// another agent runs on the machine.
func (c *Config) proxyMode(m machine.Machine, shared bool, log *slog.Logger, metrics prometheus.Registerer) proxymode.Options {
	return proxymode.Options{
		Mode: c.ProxyMode, Strict: c.Strict, DataDir: c.DataDir, Modes: m.Modes(), Locals: m.Locals, Metrics: metrics, Log: log,
		UserspaceRanges: c.UserspaceRanges,
		Kernel: kernelmode.Options{
			Shared: shared, ServiceCIDRs: c.ServiceCIDR, Count: c.TrafficMetrics > 0, StrictARP: c.StrictARP,
			Timeouts: kernelmode.Timeouts{TCP: c.IPVSTCPTimeout, TCPFin: c.IPVSTCPFinTimeout, UDP: c.IPVSUDPTimeout},
			Tracking: kernelmode.Tracking{
				MaxPerCore: c.ConntrackMaxPerCore, Min: c.ConntrackMin,
				Established: c.ConntrackEstablished, CloseWait: c.ConntrackCloseWait,
				Liberal: c.ConntrackLiberal,
			},
		},
	}
}

// bgp returns the configuration of BGP.
func (c *Config) bgp() bgp.Config {
	return bgp.Config{
		Peers: c.BGPPeers, AS: c.BGPAS, RouterID: c.BGPRouterID, Communities: c.BGPCommunities, HoldTime: c.BGPHoldTime,
		GracefulRestart: c.BGPGracefulRestart, BFD: c.BGPBFD, Hops: c.BGPHops, PasswordFile: c.BGPPasswordFile,
	}
}

// addresses returns the rules for the roles of the node's addresses.
func (c *Config) addresses() *addresses.Rules {
	rules := &addresses.Rules{NodePorts: c.NodePortAddresses, Pods: c.PodCIDR}
	for _, text := range c.NodeAddresses {
		rules.Node = append(rules.Node, netip.MustParseAddr(text)) // Validate has checked it
	}
	return rules
}

// facts returns the facts that plans are built from.
func (c *Config) facts(node, zone string, nodePorts []netip.Addr) plan.Facts {
	scheduler, _ := plan.ParseScheduler(c.Scheduler) // Validate has checked it
	return plan.Facts{
		Node: node, Zone: zone, NodePorts: nodePorts,
		Scheduler: scheduler, Drain: c.DrainTimeout, MasqueradeAll: c.MasqueradeAll,
	}
}

// Cleanup removes everything from a machine's kernel that the agent with this configuration has put
// there, and nothing else. The agent must not be running. If another one runs on the machine, only the state in this
// agent's journals is removed.
func Cleanup(m machine.Machine, cfg Config, log *slog.Logger) error {
	claim := m.Claim()
	if claim != nil {
		defer claim.Close()
	}
	return errors.Join(proxymode.Cleanup(cfg.proxyMode(m, claim == nil, log, nil)), endHandOvers(m), localproxy.RemoveRoutes(m.LocalRoutes))
}

// endHandOvers ends the hand-overs of a machine.
func endHandOvers(m machine.Machine) error {
	table, err := m.HandOvers()
	if errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(table.Set(nil), table.Close())
}
