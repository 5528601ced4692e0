package dev

import (
	"context"
	"net/netip"
	"slices"

	"portolan.dev/allocator"
	"portolan.dev/dnssvc"
	"portolan.dev/edge"
	"portolan.dev/endpointctl"
	"portolan.dev/kubeapi"
	"portolan.dev/lbctl"
	"portolan.dev/nodeagent"
	"portolan.dev/nodeagent/machine"
	"portolan.dev/registrar"
	"portolan.dev/registry"
	"portolan.dev/services/daemon"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/config"
)

// daemons returns the task of every daemon. Settings that are not set here have the daemon's own
// defaults.
func (i *Installation) daemons() []app.Task {
	all := []app.Task{i.allocator(), i.registry(), i.endpointctl(), i.lbctl(), i.dnssvc(), i.nodeagent(), i.edge(), i.kubeapi()}
	if i.options.Docker != "" {
		all = append(all, i.registrar())
	}
	return all
}

// common returns the settings that all daemons share.
func (i *Installation) common(port int) daemon.Common {
	var common daemon.Common
	config.Defaults(&common)
	common.Addr, common.HTTPAddr, common.LogLevel = i.options.addr(port), i.options.addr(port+httpOffset), i.options.LogLevel
	common.Insecure = i.options.Insecure
	common.TraceEndpoint = i.options.TraceEndpoint
	return common
}

// defaults returns the defaults of a daemon's configuration with the common settings.
func defaults[C any, P interface {
	*C
	CommonConfig() *daemon.Common
}](i *Installation, port int) C {
	var cfg C
	config.Defaults(&cfg)
	*P(&cfg).CommonConfig() = i.common(port)
	return cfg
}

func (i *Installation) allocator() app.Task {
	cfg := defaults[allocator.Config](i, allocatorPort)
	cfg.Registry = i.options.addr(registryPort)
	cfg.DataDir = i.options.dir("allocator")
	cfg.ServiceCIDR = i.options.ServiceCIDR
	cfg.PodCIDR = i.options.PodCIDR
	cfg.LoadBalancerPool = i.options.BalancerCIDR
	cfg.NodePortRange = i.options.NodePortRange
	return daemonTask(i, "allocator", cfg, cfg.Common, allocator.New)
}

func (i *Installation) registry() app.Task {
	cfg := defaults[registry.Config](i, registryPort)
	cfg.Store = "sqlite:" + i.options.dir("registry")
	cfg.Allocator = i.options.addr(allocatorPort)
	cfg.ServiceCIDR = i.options.ServiceCIDR
	cfg.PodCIDR = i.options.PodCIDR
	cfg.LoopbackEndpoints = i.options.PodCIDR
	if i.options.Docker != "" { // the containers of one machine are wherever its engine puts them
		cfg.LoopbackEndpoints = append(slices.Clone(cfg.LoopbackEndpoints), netip.PrefixFrom(i.options.Bind, i.options.Bind.BitLen()))
		cfg.ContainerRanges = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("192.168.0.0/16"), netip.MustParsePrefix("fc00::/7")}
	}
	if i.options.Insecure { // the plane listens at external IPs, so an address of the machine would open the service to others
		cfg.ExternalIPs = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
	}
	cfg.NodeAddresses = []netip.Prefix{netip.PrefixFrom(i.options.Bind, i.options.Bind.BitLen())}
	cfg.Zone = i.options.Zone
	return daemonTask(i, "registry", cfg, cfg.Common, registry.New)
}

func (i *Installation) endpointctl() app.Task {
	cfg := defaults[endpointctl.Config](i, endpointctlPort)
	cfg.Registry = i.options.addr(registryPort)
	// The identity is the same after a restart, so that the daemon need not wait for its own lease
	// to expire.
	cfg.Identity = "dev"
	return daemonTask(i, "endpointctl", cfg, cfg.Common, endpointctl.New)
}

func (i *Installation) lbctl() app.Task {
	cfg := defaults[lbctl.Config](i, lbctlPort)
	cfg.Registry = i.options.addr(registryPort)
	cfg.Allocator = i.options.addr(allocatorPort)
	cfg.Identity = "dev" // as for endpointctl
	cfg.Announce = false // the addresses are on loopback
	return daemonTask(i, "lbctl", cfg, cfg.Common, lbctl.New)
}

func (i *Installation) dnssvc() app.Task {
	cfg := defaults[dnssvc.Config](i, dnssvcPort)
	cfg.Registry = i.options.addr(registryPort)
	cfg.Listen = []string{i.options.DNSAddr.String()}
	cfg.LameDuck = 0 // no client moves to another name server meanwhile
	cfg.Zones = []string{i.options.Zone}
	cfg.ServiceCIDR = i.options.ServiceCIDR
	cfg.PodCIDR = i.options.PodCIDR
	return daemonTask(i, "dnssvc", cfg, cfg.Common, dnssvc.New)
}

func (i *Installation) nodeagent() app.Task {
	cfg := defaults[nodeagent.Config](i, nodeagentPort)
	cfg.Registry = i.options.addr(registryPort)
	cfg.NodeName = i.options.Node
	cfg.NodeAddresses = []string{i.options.Bind.String()}
	cfg.ProxyMode = "userspace"
	if !i.options.Insecure {
		cfg.UserspaceRanges = append(slices.Concat(i.options.ServiceCIDR, i.options.BalancerCIDR), netip.PrefixFrom(i.options.Bind, i.options.Bind.BitLen()))
	}
	cfg.PodCIDR = i.options.PodCIDR
	cfg.DataDir = i.options.dir("nodeagent")
	return daemonTask(i, "nodeagent", cfg, cfg.Common, userspaceAgent)
}

func (i *Installation) edge() app.Task {
	cfg := defaults[edge.Config](i, edgePort)
	cfg.Registry = i.options.addr(registryPort)
	cfg.NodeName = i.options.Node
	cfg.Agent = "" // the addresses are on loopback
	if !i.options.Insecure {
		cfg.Ranges = i.options.BalancerCIDR
	}
	cfg.DataDir = i.options.dir("edge")
	cfg.AccessLogDir = i.options.dir("access-logs")
	cfg.LameDuck, cfg.StopTimeout = 0, 0 // there is no other node, and the backends of a laptop end with it
	return daemonTask(i, "edge", cfg, cfg.Common, edge.New)
}

func (i *Installation) kubeapi() app.Task {
	cfg := defaults[kubeapi.Config](i, kubeapiPort)
	cfg.Registry = i.options.addr(registryPort)
	return daemonTask(i, "kubeapi", cfg, cfg.Common, kubeapi.New)
}

func (i *Installation) registrar() app.Task {
	cfg := defaults[registrar.Config](i, registrarPort)
	cfg.Registry = i.options.addr(registryPort)
	cfg.NodeName = i.options.Node
	cfg.NodeAddresses = []netip.Addr{i.options.Bind} // endpoints have no loopback addresses of nodes by themselves
	cfg.Docker, cfg.DockerSocket, cfg.DockerComposeNames = true, i.options.Docker, true
	return daemonTask(i, "registrar", cfg, cfg.Common, registrar.New)
}

// userspaceAgent builds an agent that leaves the kernel alone, so that dev needs no root.
func userspaceAgent(ctx context.Context, cfg nodeagent.Config, host app.Host) (*nodeagent.Daemon, error) {
	return nodeagent.NewOn(ctx, machine.Userspace{}, cfg, host)
}
