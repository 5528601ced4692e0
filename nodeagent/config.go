package nodeagent

import (
	"errors"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"
	"time"

	"portolan.dev/nodeagent/internal/proxymode"
	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/daemon"
)

// Config is the configuration of a node agent.
type Config struct {
	daemon.Common `default:"addr=127.0.0.1:7404 http-addr=127.0.0.1:7504"`

	Registry    string         `flag:"registry" default:"127.0.0.1:7400" usage:"host:port of the registry's gRPC API; several, comma separated"`
	LBCtl       []string       `flag:"lbctl" default:"127.0.0.1:7406" usage:"host:port of lbctl's gRPC API, which decides which node announces a load-balancer address; several, comma separated"`
	DataDir     string         `flag:"data-dir" usage:"folder of the last view, from which to start if the registry is unavailable, and of the journal of the agent's state in the kernel; empty: no view, the journal in /run/portolan"`
	ServiceCIDR []netip.Prefix `flag:"service-cidr" usage:"ranges of cluster IPs: one route each in the kernel; an address outside of them gets its own"`
	PodCIDR     []netip.Prefix `flag:"pod-cidr" usage:"ranges of the pods on all nodes, whose traffic is internal; empty: only the node's own traffic is"`

	NodeName           string         `flag:"node-name" usage:"name of the node; empty: that of the certificate, or the host name"`
	NodeAddresses      []string       `flag:"node-addresses" usage:"addresses of the node, its main one first; empty: those of its interfaces"`
	NodeLabels         []string       `flag:"node-labels" usage:"labels for a new Node object, such as topology.kubernetes.io/zone=a"`
	AdvertiseAddr      string         `flag:"advertise-addr" usage:"host:port of the gRPC API for other machines; empty: the address listened on, or the node's first"`
	ProxyMode          string         `flag:"proxy-mode" default:"auto" usage:"how traffic is forwarded: ipvs or nftables (in the kernel; iptables is another name of nftables), userspace, or auto: the first of ipvs, nftables and userspace that the node can"`
	UserspaceRanges    []netip.Prefix `flag:"userspace-ranges" usage:"ranges in which the userspace mode may listen; services at other addresses are not served, and get an event; empty: all addresses of the machine"`
	Strict             bool           `flag:"strict" default:"false" usage:"fail if the kernel does not support the proxy-mode (auto: ipvs), instead of falling back to the next one"`
	NodePortAddresses  []netip.Prefix `flag:"nodeport-addresses" usage:"CIDRs of the node's addresses that serve node ports; empty: all addresses of the node, and its loopback addresses"`
	StrictARP          bool           `flag:"strict-arp" default:"true" usage:"do not answer ARP requests for addresses that no device of the node has, such as external IPs (sysctls arp_ignore and arp_announce); in userspace mode from the first virtual address on"`
	AnnounceInterfaces []string       `flag:"announce-interfaces" usage:"patterns of the interfaces, such as eth*, on which the node answers ARP and neighbour discovery for the load-balancer addresses that lbctl gives it; empty: none"`

	BGPPeers           []string      `flag:"bgp-peers" usage:"routers to which the node advertises load-balancer addresses by BGP, as ADDRESS@AS or ADDRESS:PORT@AS, such as 10.0.0.1@64513; a session has the routes of the family of its addresses; empty: no BGP"`
	BGPAS              uint32        `flag:"bgp-as" default:"0" usage:"number of the node's autonomous system (AS)"`
	BGPRouterID        string        `flag:"bgp-router-id" usage:"IPv4 address that identifies the node to its peers; empty: the node's first IPv4 address, or one made from its name"`
	BGPCommunities     []string      `flag:"bgp-communities" usage:"communities of all routes, such as 64512:100, or large ones, such as 64512:1:100"`
	BGPHoldTime        time.Duration `flag:"bgp-hold-time" default:"9s" usage:"time without a message after which a peer takes the node for dead and drops its routes, unless the peer has a shorter one; at least 3s"`
	BGPGracefulRestart time.Duration `flag:"bgp-graceful-restart" default:"30s" usage:"time for which peers keep the routes after the agent was stopped or killed, if the kernel forwards; 0: they drop them at once"`
	BGPBFD             time.Duration `flag:"bgp-bfd" default:"0s" usage:"time between two packets of BFD (UDP port 3784), such as 300ms; without three in a row a peer takes the node for dead; 0: no BFD. Requires that bgp-graceful-restart is 0"`
	BGPHops            int           `flag:"bgp-hops" default:"1" usage:"largest number of hops to a peer of another AS; 1: it is on a network of the node"`
	BGPPasswordFile    string        `flag:"bgp-password-file" usage:"file with the password of the sessions (TCP MD5), which is read at the start; empty: none"`

	MasqueradeAll bool          `flag:"masquerade-all" default:"false" usage:"hide all clients of cluster IPs from backends"`
	Scheduler     string        `flag:"scheduler" default:"rr" usage:"scheduler of services that set none: rr, lc, dh, sh, sed, nq or mh"`
	DrainTimeout  time.Duration `flag:"drain-timeout" default:"300s" usage:"time for which connections to a removed backend may continue, unless the service sets its own"`

	IPVSTCPTimeout    time.Duration `flag:"ipvs-tcp-timeout" default:"7500s" usage:"time after which IPVS forgets an idle TCP connection: longer than the interval of keepalives, 7200 s; 0: unchanged"`
	IPVSTCPFinTimeout time.Duration `flag:"ipvs-tcpfin-timeout" default:"0s" usage:"time after which IPVS forgets a TCP connection that one side has closed; 0: unchanged"`
	IPVSUDPTimeout    time.Duration `flag:"ipvs-udp-timeout" default:"0s" usage:"time after which IPVS forgets an idle UDP flow; 0: unchanged"`

	ConntrackMaxPerCore  int           `flag:"conntrack-max-per-core" default:"32768" usage:"minimum number of connections that the kernel can track, per processor; 0: unchanged"`
	ConntrackMin         int           `flag:"conntrack-min" default:"131072" usage:"minimum number of connections that the kernel can track, regardless of conntrack-max-per-core"`
	ConntrackEstablished time.Duration `flag:"conntrack-tcp-timeout-established" default:"24h" usage:"time after which the kernel stops tracking an idle TCP connection; 0: unchanged"`
	ConntrackCloseWait   time.Duration `flag:"conntrack-tcp-timeout-close-wait" default:"1h" usage:"time after which the kernel stops tracking a TCP connection that only the client has closed; 0: unchanged"`

	ConntrackLiberal bool `flag:"conntrack-tcp-be-liberal" default:"false" usage:"accept TCP segments outside of their window (sysctl nf_conntrack_tcp_be_liberal), for a node that sees only one direction of connections that it routes"`

	CheckDir  string `flag:"check-dir" usage:"folder of the scripts that exec checks may run, which only root may write; empty: exec checks are refused, and their pods are not ready"`
	CheckUser string `flag:"check-user" default:"nobody" usage:"user of the scripts in check-dir, as a name or UID:GID; an agent that is not root runs them as itself"`

	TrafficMetrics    int           `flag:"traffic-metrics" default:"100" usage:"maximum number of service ports with traffic in the metrics, those with most connections first; 0: none, and nftables does not count"`
	HealthzAddr       string        `flag:"healthz-addr" usage:"host:port of /healthz and /livez as kube-proxy has them, for load balancers and supervisors (kube-proxy: 0.0.0.0:10256); empty: none"`
	HeartbeatInterval time.Duration `flag:"heartbeat-interval" default:"2s" usage:"time between heartbeats"`
}

// DataFolder returns the folder of the daemon's data, or "" if none is configured.
func (c *Config) DataFolder() string { return c.DataDir }

// Validate returns all errors in the configuration.
func (c *Config) Validate() error {
	errs := []error{c.Common.Validate()}
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for _, a := range c.NodeAddresses {
		if addr, err := netip.ParseAddr(a); err != nil || addr.Zone() != "" || addr.IsUnspecified() {
			bad("node-addresses: %q is no address of a node", a)
		}
	}
	for _, l := range c.NodeLabels {
		if key, _, ok := strings.Cut(l, "="); !ok || key == "" {
			bad("node-labels: %q is not key=value", l)
		}
	}
	for _, pattern := range c.AnnounceInterfaces {
		if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
			bad("announce-interfaces: %q is no pattern of names, such as eth0 or eth*", pattern)
		}
	}
	if len(c.AnnounceInterfaces) > 0 && len(c.LBCtl) == 0 {
		bad("lbctl: must be set, because announce-interfaces is")
	}
	bgpConfig := c.bgp()
	errs = append(errs, bgpConfig.Validate())
	if modes := proxymode.Names(); !slices.Contains(modes, c.ProxyMode) {
		bad("proxy-mode: %q is none of %s", c.ProxyMode, strings.Join(modes, ", "))
	}
	if _, ok := plan.ParseScheduler(c.Scheduler); !ok {
		bad("scheduler: %q is none of rr, lc, dh, sh, sed, nq, mh", c.Scheduler)
	}
	if c.DrainTimeout < 0 {
		bad("drain-timeout: must not be negative")
	}
	errs = append(errs, c.validateKernel())
	if c.TrafficMetrics < 0 {
		bad("traffic-metrics: must not be negative")
	}
	if c.HeartbeatInterval <= 0 {
		bad("heartbeat-interval: must be positive")
	}
	return errors.Join(errs...)
}

// validateKernel checks the settings of the kernel.
func (c *Config) validateKernel() error {
	var errs []error
	for _, it := range []struct {
		flag  string
		value time.Duration
	}{
		{"ipvs-tcp-timeout", c.IPVSTCPTimeout}, {"ipvs-tcpfin-timeout", c.IPVSTCPFinTimeout}, {"ipvs-udp-timeout", c.IPVSUDPTimeout},
		{"conntrack-tcp-timeout-established", c.ConntrackEstablished}, {"conntrack-tcp-timeout-close-wait", c.ConntrackCloseWait},
	} {
		if it.value < 0 || it.value%time.Second != 0 || it.value > maxKernelTimeout {
			errs = append(errs, fmt.Errorf("%s: %s is not a number of whole seconds up to %s, or 0", it.flag, it.value, maxKernelTimeout))
		}
	}
	for flag, n := range map[string]int{"conntrack-max-per-core": c.ConntrackMaxPerCore, "conntrack-min": c.ConntrackMin} {
		if n < 0 || n > maxTracked {
			errs = append(errs, fmt.Errorf("%s: %d is not between 0 and %d", flag, n, maxTracked))
		}
	}
	return errors.Join(errs...)
}

const (
	// maxKernelTimeout is the longest time that the kernel's clock can count, at a thousand ticks a
	// second.
	maxKernelTimeout = 24 * 24 * time.Hour
	// maxTracked prevents a typing error from taking all memory.
	maxTracked = 1 << 24
)

// labels returns the labels of a new Node object.
func (c *Config) labels() map[string]string {
	labels := map[string]string{}
	for _, l := range c.NodeLabels {
		key, value, _ := strings.Cut(l, "=")
		labels[key] = value
	}
	return labels
}
