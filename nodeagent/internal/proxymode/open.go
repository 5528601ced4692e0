package proxymode

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"portolan.dev/nodeagent/dataplane"
	"portolan.dev/nodeagent/dataplane/kernelmode"
	"portolan.dev/nodeagent/dataplane/userspace"
	"portolan.dev/nodeagent/plan"
)

// Opened is the result of Open.
type Opened struct {
	Plane dataplane.Plane
	// Fallback is the reason why another mode than the configured one is used, with the remedy. Empty: the
	// configured mode is used.
	Fallback string
	// Left is the error of removing the state of an earlier agent. That state may capture packets that the plane
	// should get.
	Left error
}

// Open opens the data plane of the configured mode. If the kernel does not support it, Open uses
// the next best mode, unless the options are strict.
func Open(o Options) (Opened, error) {
	if o.Mode == IPTables {
		o.Log.Info("proxy mode iptables is served by nftables, its modern form: no iptables rules are made")
	}
	var reasons []string
	for _, mode := range o.candidates() {
		plane, left, err := o.open(mode)
		if err == nil {
			return Opened{plane, fallbackReason(mode.Name, reasons), left}, nil
		}
		if o.Strict {
			return Opened{}, fmt.Errorf("proxy-mode %s: %w", o.Mode, err)
		}
		reasons = append(reasons, fmt.Sprintf("%s does not work here: %v", mode.Name, err))
	}
	left := Cleanup(o)
	locals, err := o.locals()
	if err != nil {
		o.Log.Warn("virtual addresses are not made local", "err", err)
	}
	plane := userspace.New(userspace.Options{Log: o.Log, Metrics: o.Metrics, Ranges: o.UserspaceRanges, Locals: locals})
	return Opened{plane, fallbackReason(Userspace, reasons), left}, nil
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
// notices, except that open connections of IPVS end. The first error is that of removing the other mode's state.
func (o *Options) open(mode kernelmode.Mode) (plane kernelmode.Plane, left, err error) {
	options := o.kernel(mode.Name)
	before, left := o.predecessors(mode.Name)
	for _, p := range before {
		defer p.Close() //nolint:errcheck // there is nothing to lose any more
		options.InitialState = join(options.InitialState, p.State())
		options.OriginalSettings = p.OriginalSettings() // two predecessors would have the same values
	}
	left = errors.Join(left, o.endUserspace())
	if plane, err = mode.Open(options); err != nil {
		return nil, nil, err
	}
	for _, p := range before {
		left = errors.Join(left, p.Remove())
	}
	return plane, left, nil
}

// predecessors returns the state that agents have left in the kernel in other modes.
func (o *Options) predecessors(mode string) (all []kernelmode.Predecessor, left error) {
	for _, m := range o.Modes {
		if m.Name == mode {
			continue
		}
		has, err := o.hasKernelState(m)
		left = errors.Join(left, err)
		if !has {
			continue
		}
		p, err := m.OpenPredecessor(o.kernel(m.Name))
		if err != nil {
			left = errors.Join(left, fmt.Errorf("state of an earlier agent in mode %s: %w", m.Name, err))
			continue
		}
		all = append(all, p)
	}
	return all, left
}

// endUserspace restores the settings of an agent in userspace mode that was killed. Its sockets have ended with
// it, so its routes are of no use until the next plane has its own.
func (o *Options) endUserspace() error {
	if _, err := os.Stat(o.journal(Userspace)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	locals, err := o.locals()
	if locals == nil {
		return err
	}
	return locals.Close()
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
