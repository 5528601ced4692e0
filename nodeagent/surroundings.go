package nodeagent

import (
	"cmp"
	"context"

	"portolan.dev/nodeagent/internal/events"
	"portolan.dev/nodeagent/internal/nodestatus"
	"portolan.dev/nodeagent/internal/proxymode"
	"portolan.dev/services/object"
)

// refreshAddresses reads the node's addresses again and passes them on.
func (a *Agent) refreshAddresses() error {
	a.addressesMu.Lock()
	defer a.addressesMu.Unlock()
	local, err := a.machine.Addresses()
	if err != nil {
		return err
	}
	roles := a.cfg.addresses().Assign(local)
	a.addresses.Store(&roles)
	a.node.SetAddresses(roles.Node)
	a.checks.SetAddresses(roles.NodePorts)
	a.refreshFacts()
	return nil
}

// refreshFacts passes the current facts to the syncer.
func (a *Agent) refreshFacts() {
	roles := a.addresses.Load()
	a.syncer.SetFacts(a.cfg.facts(a.name, a.zone(), roles.NodePorts), roles.Sources)
}

// zone returns the node's zone according to the registry, or to the configured labels.
func (a *Agent) zone() string {
	return cmp.Or(a.view.Self().GetMetadata().GetLabels()[object.LabelZone], a.cfg.labels()[object.LabelZone])
}

// checkSurroundings checks for changes without notifications: changed addresses, programs that
// listen on node ports, and a Node that is still not ready.
func (a *Agent) checkSurroundings(context.Context) {
	if self := a.view.Self(); self != nil && !nodestatus.Ready(self) {
		a.node.Wake()
	}
	a.checkAddresses()
	a.syncer.CheckNodePorts(a.machine.Listeners())
}

func (a *Agent) checkAddresses() {
	a.syncer.ReportNodeFailure("read the addresses of the node", a.refreshAddresses(), events.AddressesUnknown)
}

// watchAddresses reads the node's addresses whenever the kernel reports a change. If the kernel
// does not report changes, checkSurroundings finds them later.
func (a *Agent) watchAddresses(ctx context.Context) error {
	if err := a.machine.WatchAddresses(ctx, a.checkAddresses); err != nil {
		a.log.Info("changes of addresses are noticed late", "within", surroundingsEvery, "err", err)
	}
	<-ctx.Done()
	return nil
}

// reportSettings writes an event for each setting of the kernel that could not be made, because no
// step fails for that reason.
func (a *Agent) reportSettings() {
	for _, s := range proxymode.Settings(a.plane) {
		if s.Err != nil {
			a.events.WarnNode(events.KernelSettingRefused, s.String())
		}
	}
}
