package nodeagent

import (
	"cmp"
	"context"
	"net/netip"

	"portolan.dev/nodeagent/internal/events"
	"portolan.dev/nodeagent/internal/nodestatus"
	"portolan.dev/nodeagent/internal/proxymode"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// refreshAddresses reads the node's addresses again and passes them on. The announcer reads the
// interfaces.
func (d *Daemon) refreshAddresses() error {
	d.addressesMu.Lock()
	defer d.addressesMu.Unlock()
	local, err := d.machine.Addresses()
	if err != nil {
		return err
	}
	roles := d.cfg.addresses().Assign(local)
	before := d.mainAddress()
	d.addresses.Store(&roles)
	if before != "" && before != d.mainAddress() {
		d.prober.Readdress()
	}
	d.node.SetAddresses(roles.Node)
	d.checks.SetAddresses(roles.NodePorts)
	d.refreshFacts()
	d.announcer.Refresh()
	return nil
}

// refreshFacts passes the current facts to the syncer.
func (d *Daemon) refreshFacts() {
	roles := d.addresses.Load()
	d.syncer.SetFacts(d.cfg.facts(d.name, d.zone(), roles.NodePorts), roles.Sources)
}

// zone returns the node's zone according to the registry, or to the configured labels.
func (d *Daemon) zone() string {
	return cmp.Or(d.view.Self().GetMetadata().GetLabels()[object.LabelZone], d.cfg.labels()[object.LabelZone])
}

// takesTraffic reports whether load balancers may send traffic to the node: it forwards as planned, does not
// drain, and is not being deleted.
func (d *Daemon) takesTraffic() bool {
	self := d.view.Self()
	return d.syncer.Healthy() && !d.draining.Load() && self.GetMetadata().GetDeletionTimestamp() == nil && spec.TakesBalancerTraffic(self)
}

// firstIPv4 returns the node's first IPv4 address, or the zero value.
func (d *Daemon) firstIPv4() netip.Addr {
	for _, addr := range d.addresses.Load().Node {
		if addr.Is4() {
			return addr
		}
	}
	return netip.Addr{}
}

// mainAddress returns the main address of the node, or "" before the addresses are known.
func (d *Daemon) mainAddress() string {
	roles := d.addresses.Load()
	if roles == nil || len(roles.Node) == 0 {
		return ""
	}
	return roles.Node[0].String()
}

// checkSurroundings checks for changes without notifications: changed addresses, programs that
// listen on node ports, the health of the data plane, and a Node that is still not ready.
func (d *Daemon) checkSurroundings(context.Context) {
	if self := d.view.Self(); self != nil && !nodestatus.Ready(self) {
		d.node.Wake()
	}
	d.checkAddresses()
	d.advertiser.Wake()
	d.proxies.Wake()
	d.syncer.CheckNodePorts(d.machine.Listeners())
}

func (d *Daemon) checkAddresses() {
	d.syncer.ReportNodeFailure("read the addresses of the node", d.refreshAddresses(), events.AddressesUnknown)
}

// watchAddresses reads the node's addresses whenever the kernel reports a change. If the kernel
// does not report changes, checkSurroundings finds them later.
func (d *Daemon) watchAddresses(ctx context.Context) error {
	if err := d.machine.WatchAddresses(ctx, d.checkAddresses); err != nil {
		d.log.Info("changes of addresses are noticed late", "within", surroundingsEvery, "err", err)
	}
	<-ctx.Done()
	return nil
}

// reportSettings writes an event for each setting of the kernel that could not be made, because no
// step fails for that reason.
func (d *Daemon) reportSettings() {
	for _, s := range proxymode.Settings(d.plane) {
		if s.Err != nil {
			d.events.WarnNode(events.KernelSettingRefused, s.String())
		}
	}
}
