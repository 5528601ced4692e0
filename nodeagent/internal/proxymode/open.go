package proxymode

import (
	"fmt"
	"strings"

	"portolan.dev/nodeagent/dataplane"
	"portolan.dev/nodeagent/dataplane/kernelmode"
	"portolan.dev/nodeagent/dataplane/userspace"
	"portolan.dev/nodeagent/plan"
)

// Open opens the data plane of the configured mode. If the kernel does not support it, Open uses
// the next best mode and returns the reason, with the remedy, unless the options are strict.
func Open(o Options) (plane dataplane.Plane, fallback string, err error) {
	if o.Mode == IPTables {
		o.Log.Info("proxy mode iptables is served by nftables, its modern form: no iptables rules are made")
	}
	var reasons []string
	for _, mode := range o.candidates() {
		plane, err := o.open(mode)
		if err == nil {
			return plane, fallbackReason(mode.Name, reasons), nil
		}
		if o.Strict {
			return nil, "", fmt.Errorf("proxy-mode %s: %w", o.Mode, err)
		}
		reasons = append(reasons, fmt.Sprintf("%s does not work here: %v", mode.Name, err))
	}
	if len(reasons) == 0 {
		if err := Cleanup(o); err != nil {
			o.warnStateLeft(err)
		}
	}
	plane = userspace.New(userspace.Options{Log: o.Log, Metrics: o.Metrics, Ranges: o.UserspaceRanges})
	return plane, fallbackReason(Userspace, reasons), nil
}

// fallbackReason returns the reason why a mode is used although others were tried first. It is
// empty if there are no reasons against others.
func fallbackReason(used string, reasons []string) string {
	if len(reasons) == 0 {
		return ""
	}
	return fmt.Sprintf("proxy mode %s is used, since %s; load the module ip_vs and run the agent as root, or set -proxy-mode=%s",
		used, strings.Join(reasons, ", and "), used)
}

// open opens the plane of a mode. It takes over the state of an agent in another mode. No client
// notices, except that open connections of IPVS end.
func (o *Options) open(mode kernelmode.Mode) (kernelmode.Plane, error) {
	options := o.kernel(mode.Name)
	before := o.predecessors(mode.Name)
	for _, p := range before {
		defer p.Close() //nolint:errcheck // there is nothing to lose any more
		options.InitialState = join(options.InitialState, p.State())
		options.OriginalSettings = p.OriginalSettings() // two predecessors would have the same values
	}
	plane, err := mode.Open(options)
	if err != nil {
		return nil, err
	}
	for _, p := range before {
		if err := p.Remove(); err != nil {
			o.warnStateLeft(err)
		}
	}
	return plane, nil
}

// predecessors returns the state that agents have left in the kernel in other modes.
func (o *Options) predecessors(mode string) []kernelmode.Predecessor {
	var all []kernelmode.Predecessor
	for _, m := range o.Modes {
		if m.Name == mode {
			continue
		}
		has, err := o.hasKernelState(m)
		if err != nil {
			o.warnStateLeft(err)
		}
		if !has {
			continue
		}
		p, err := m.OpenPredecessor(o.kernel(m.Name))
		if err != nil {
			o.Log.Warn("state of an earlier agent not read", "proxy_mode", m.Name, "err", err)
			continue
		}
		all = append(all, p)
	}
	return all
}

// warnStateLeft logs that the state of an earlier agent could not be removed.
func (o *Options) warnStateLeft(err error) {
	o.Log.Warn("state of an earlier agent may remain in the kernel", "err", err)
}

// join adds to a the servers that only b has. A nil state is empty.
func join(a, b *plan.State) *plan.State {
	if a == nil {
		return b
	}
	for key, v := range b.Servers {
		if a.Servers[key] == nil {
			a.Servers[key] = v
		}
	}
	return a
}
