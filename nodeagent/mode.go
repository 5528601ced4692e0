package nodeagent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"portolan.dev/nodeagent/dataplane"
	"portolan.dev/nodeagent/dataplane/ipvs"
	"portolan.dev/nodeagent/dataplane/kernel"
	"portolan.dev/nodeagent/dataplane/userspace"
	"portolan.dev/services/kit/config"
)

// The proxy modes. With autoMode the best one that the node can do is used.
const (
	autoMode      = "auto"
	ipvsMode      = ipvs.Name
	userspaceMode = "userspace" // always works
)

// runDir is where the journal of the kernel's state is kept without a data
// directory: like that state, it does not survive the machine.
const runDir = "/run/portolan"

func (c *Config) journal() string {
	dir := c.DataDir
	if dir == "" {
		dir = runDir
	}
	return filepath.Join(dir, "ipvs.journal")
}

func (c *Config) kernel(log *slog.Logger) kernel.Options {
	return kernel.Options{Log: log, Journal: c.journal(), ServiceCIDRs: c.ServiceCIDR}
}

// openPlane opens the data plane of the configured mode. Where the kernel has no
// IPVS the agent forwards all the same, and says so, unless it is strict.
func (a *Agent) openPlane() (dataplane.Plane, error) {
	fallback := func() dataplane.Plane {
		return userspace.New(userspace.Options{Log: a.log, Metrics: a.host.Metrics})
	}
	if a.cfg.ProxyMode == userspaceMode {
		if err := a.cfg.leaveKernel(a.log); err != nil {
			a.log.Warn("the kernel may still forward what an earlier agent told it to", "err", err)
		}
		return fallback(), nil
	}
	plane, err := ipvs.New(a.cfg.kernel(a.log))
	switch {
	case err == nil:
		return plane, nil
	case a.cfg.Strict:
		return nil, fmt.Errorf("proxy-mode %s: %w", a.cfg.ProxyMode, err)
	}
	a.fellBack(fmt.Sprintf(
		"proxy mode %s is used, since %s does not work here: %v; load the module ip_vs and run the agent as root, or set -proxy-mode=%s",
		userspaceMode, ipvsMode, err, userspaceMode))
	return fallback(), nil
}

// leaveKernel takes out of the kernel what an agent in another mode left there.
func (c *Config) leaveKernel(log *slog.Logger) error {
	if _, err := os.Stat(c.journal()); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	plane, err := ipvs.New(c.kernel(log))
	if err != nil {
		return err
	}
	return errors.Join(plane.Cleanup(), plane.Close())
}

// Cleanup takes everything out of the kernel that the agent of a configuration
// has put there, and nothing else. The agent must not be running.
func Cleanup(_ context.Context, args []string) error {
	var cfg Config
	if err := config.Load("nodeagent", &cfg, args, os.LookupEnv, os.Stdout); err != nil {
		return err
	}
	return cfg.leaveKernel(slog.New(slog.NewTextHandler(os.Stderr, nil)))
}
