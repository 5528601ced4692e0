package kernel

import (
	"errors"
	"fmt"

	"portolan.dev/nodeagent/dataplane/host"
)

// Cleanup removes all of the plane's state from the kernel, and nothing else. After it, only Close
// may be called.
func (p *Plane) Cleanup() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return errClosed
	}
	var ops []Op
	for _, s := range p.services {
		ops = append(ops, Op{Kind: DeleteServer, ID: s.id})
	}
	for _, d := range p.uncertain {
		ops = append(ops, Op{Kind: DeleteServer, ID: d.id})
	}
	p.ranges = nil // prevents the repair of routes from here on
	clear(p.routedAddrs)
	errs := append(p.balancer.Apply(ops), p.balancer.Remove())
	for _, r := range p.routes.All() {
		errs = append(errs, p.routes.Delete(r))
	}
	errs = append(errs, p.filter.Remove(), host.Within(p.opts.Namespace, p.arpSettings().restore))
	for i := range p.settings { // nor are settings repaired
		p.settings[i].Watch = false
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("cleanup: %w", err)
	}
	clear(p.services)
	clear(p.fronts)
	clear(p.uncertain)
	p.standIns = newStandIns()
	return p.removeJournals()
}
