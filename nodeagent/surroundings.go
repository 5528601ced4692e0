package nodeagent

import (
	"cmp"
	"context"

	"portolan.dev/nodeagent/internal/events"
	"portolan.dev/nodeagent/internal/nodestatus"
	"portolan.dev/nodeagent/internal/proxymode"
	"portolan.dev/services/object"
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
	d.addresses.Store(&roles)
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

// checkSurroundings checks for changes without notifications: changed addresses, programs that
// listen on node ports, and a Node that is still not ready.
func (d *Daemon) checkSurroundings(context.Context) {
	if self := d.view.Self(); self != nil && !nodestatus.Ready(self) {
		d.node.Wake()
	}
	d.checkAddresses()
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
