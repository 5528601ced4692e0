package nodeagent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"portolan.dev/nodeagent/dataplane"
	"portolan.dev/nodeagent/dataplane/host"
	"portolan.dev/nodeagent/dataplane/ipvs"
	"portolan.dev/nodeagent/dataplane/kernel"
	"portolan.dev/nodeagent/dataplane/nftables"
	"portolan.dev/nodeagent/dataplane/userspace"
	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/kit/config"
)

// The proxy modes. With autoMode the agent uses the best mode that the node supports.
const (
	autoMode      = "auto"
	ipvsMode      = ipvs.Name
	nftablesMode  = nftables.Name
	iptablesMode  = "iptables"  // another name of nftablesMode, its modern form
	userspaceMode = "userspace" // always works
)

// proxyModes returns the modes that can be configured.
func proxyModes() []string {
	return []string{autoMode, ipvsMode, nftablesMode, iptablesMode, userspaceMode}
}

// runDir holds the journal of the kernel's state if there is no data directory. Like that state, it
// does not survive a reboot.
const runDir = "/run/portolan"

// journal returns the path of the journal for a mode. If the file exists, the kernel may have state
// of the agent in that mode.
func (c *Config) journal(mode string) string {
	dir := c.DataDir
	if dir == "" {
		dir = runDir
	}
	return filepath.Join(dir, mode+".journal")
}

func (c *Config) kernel(mode string, log *slog.Logger) kernel.Options {
	return kernel.Options{
		Log: log, Journal: c.journal(mode), ServiceCIDRs: c.ServiceCIDR, Count: c.TrafficMetrics > 0, StrictARP: c.StrictARP,
		Timeouts: host.Timeouts{TCP: c.IPVSTCPTimeout, TCPFin: c.IPVSTCPFinTimeout, UDP: c.IPVSUDPTimeout},
		Tracking: host.Tracking{
			MaxPerCore: c.ConntrackMaxPerCore, Min: c.ConntrackMin,
			Established: c.ConntrackEstablished, CloseWait: c.ConntrackCloseWait,
			Liberal: c.ConntrackLiberal,
		},
	}
}

// used reports whether an agent may have left state in the kernel in a mode.
func (c *Config) used(mode string) bool {
	_, err := os.Stat(c.journal(mode))
	return !errors.Is(err, fs.ErrNotExist)
}

// tries returns the modes in the kernel to try for the configured one.
func (a *Agent) tries() []KernelMode {
	wanted := a.cfg.ProxyMode
	switch wanted {
	case userspaceMode:
		return nil
	case autoMode:
		wanted = ipvsMode
	case iptablesMode:
		wanted = nftablesMode
	}
	modes := a.machine.Modes()
	i := slices.IndexFunc(modes, func(m KernelMode) bool { return m.Name == wanted })
	return modes[i:]
}

// openPlane opens the data plane of the configured mode. If the kernel does not support it, the
// agent uses the next best mode and reports that, unless it is strict.
func (a *Agent) openPlane() (dataplane.Plane, error) {
	if a.cfg.ProxyMode == iptablesMode {
		a.log.Info("proxy mode iptables is served by nftables, its modern form: no iptables rules are made")
	}
	tries := a.tries()
	var reasons []string
	for _, mode := range tries {
		plane, err := a.openKernel(mode)
		if err == nil {
			if len(reasons) > 0 {
				a.fellBack(fallback(mode.Name, reasons))
			}
			return plane, nil
		}
		if a.cfg.Strict {
			return nil, fmt.Errorf("proxy-mode %s: %w", a.cfg.ProxyMode, err)
		}
		reasons = append(reasons, fmt.Sprintf("%s does not work here: %v", mode.Name, err))
	}
	if len(reasons) > 0 {
		a.fellBack(fallback(userspaceMode, reasons))
	} else if err := a.cfg.leaveKernel(a.machine, a.log); err != nil {
		a.log.Warn("the kernel may still forward what an earlier agent told it to", "err", err)
	}
	return userspace.New(userspace.Options{Log: a.log, Metrics: a.host.Metrics}), nil
}

// fallback returns the reason why a mode is used, with the remedy.
func fallback(used string, reasons []string) string {
	return fmt.Sprintf("proxy mode %s is used, since %s; load the module ip_vs and run the agent as root, or set -proxy-mode=%s",
		used, strings.Join(reasons, ", and "), used)
}

// openKernel opens the plane of a mode. It takes over the state of an agent in another mode. No
// client notices, except that open connections of IPVS end.
func (a *Agent) openKernel(mode KernelMode) (*kernel.Plane, error) {
	options := a.cfg.kernel(mode.Name, a.log)
	before := a.predecessors(mode.Name)
	for _, p := range before {
		defer p.Close() //nolint:errcheck // there is nothing to lose any more
		options.From = join(options.From, p.State())
		options.Before = p.Before() // two predecessors would have the same values
	}
	plane, err := mode.Open(options)
	if err != nil {
		return nil, err
	}
	for _, p := range before {
		if err := p.Leave(); err != nil {
			a.log.Warn("the kernel may still forward what an earlier agent told it to", "err", err)
		}
	}
	return plane, nil
}

// predecessors returns the state that agents have left in the kernel in other modes.
func (a *Agent) predecessors(mode string) []*kernel.Predecessor {
	var all []*kernel.Predecessor
	for _, m := range a.machine.Modes() {
		if m.Name == mode || !a.cfg.used(m.Name) {
			continue
		}
		p, err := m.Precede(a.cfg.kernel(m.Name, a.log))
		if err != nil {
			a.log.Warn("what an earlier agent forwarded is not known", "proxy_mode", m.Name, "err", err)
			continue
		}
		all = append(all, p)
	}
	return all
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

// leaveKernel removes the state that agents have left in the kernel, in any mode.
func (c *Config) leaveKernel(m Machine, log *slog.Logger) error {
	var errs []error
	for _, mode := range m.Modes() {
		if !c.used(mode.Name) {
			continue
		}
		plane, err := mode.Open(c.kernel(mode.Name, log))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, plane.Cleanup(), plane.Close())
	}
	return errors.Join(errs...)
}

// Cleanup removes everything from the kernel that the agent with this configuration has put there,
// and nothing else. The agent must not be running.
func Cleanup(_ context.Context, args []string) error {
	var cfg Config
	if err := config.Load("nodeagent", &cfg, args, os.LookupEnv, os.Stdout); err != nil {
		return err
	}
	return cfg.leaveKernel(Linux{}, slog.New(slog.NewTextHandler(os.Stderr, nil)))
}
