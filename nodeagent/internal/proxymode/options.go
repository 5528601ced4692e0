package proxymode

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"portolan.dev/nodeagent/dataplane/kernelmode"
	"portolan.dev/nodeagent/dataplane/userspace"
)

// runDir holds the journal of the kernel's state if there is no data directory. Like that state, it
// does not survive a reboot.
const runDir = "/run/portolan"

// Options are the configuration of the proxy mode.
type Options struct {
	// Mode is the configured mode, one of Names.
	Mode string
	// Strict makes Open fail instead of using another mode.
	Strict bool
	// Kernel are the options of a plane in the kernel. The log and the journal are set by mode.
	Kernel kernelmode.Options
	// DataDir is the directory of the journals. Empty: a directory that does not survive a reboot.
	DataDir string
	// Modes are the modes in which the machine's kernel can forward, in the order in which they are
	// tried.
	Modes []kernelmode.Mode
	// Locals opens the routes of the userspace plane; nil: the machine has none.
	Locals func(kernelmode.Options) (userspace.Locals, error)
	// UserspaceRanges are the ranges in which the userspace plane may listen; empty: everywhere.
	UserspaceRanges []netip.Prefix
	// Metrics has the metrics of the userspace plane.
	Metrics prometheus.Registerer
	Log     *slog.Logger
}

// journal returns the path of the journal for a mode.
func (o *Options) journal(mode string) string {
	dir := o.DataDir
	if dir == "" {
		dir = runDir
	}
	return filepath.Join(dir, mode+".journal")
}

// kernel returns the options of the plane of a mode.
func (o *Options) kernel(mode string) kernelmode.Options {
	options := o.Kernel
	options.Log, options.Journal = o.Log, o.journal(mode)
	return options
}

// hasKernelState reports whether an agent may have left state in the kernel in a mode: its journal exists, or
// the kernel has servers that can be recognised without a journal.
func (o *Options) hasKernelState(mode kernelmode.Mode) (bool, error) {
	if _, err := os.Stat(o.journal(mode.Name)); !errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if o.Kernel.Shared {
		return false, nil
	}
	has, err := mode.HasState(o.kernel(mode.Name))
	switch {
	case errors.Is(err, fs.ErrPermission): // an agent without rights may not look, and cannot have left anything
		return false, nil
	case err != nil:
		return false, fmt.Errorf("proxy mode %s: %w", mode.Name, err)
	}
	return has, nil
}

// candidates returns the modes in the kernel to try for the configured one, in order.
func (o *Options) candidates() []kernelmode.Mode {
	wanted := o.Mode
	switch wanted {
	case Userspace:
		return nil
	case Auto:
		wanted = IPVS
	case IPTables:
		wanted = NFTables
	}
	i := slices.IndexFunc(o.Modes, func(m kernelmode.Mode) bool { return m.Name == wanted })
	if i < 0 {
		return []kernelmode.Mode{unavailable(wanted)}
	}
	return o.Modes[i:]
}

var errNoKernelModes = errors.New("kernels forward for agents on Linux only")

// unavailable returns a mode that a machine's kernel does not have.
func unavailable(name string) kernelmode.Mode {
	return kernelmode.Mode{Name: name, Open: func(kernelmode.Options) (kernelmode.Plane, error) { return nil, errNoKernelModes }}
}
