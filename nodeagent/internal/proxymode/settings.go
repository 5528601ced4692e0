package proxymode

import (
	"portolan.dev/nodeagent/dataplane"
	"portolan.dev/nodeagent/dataplane/kernelmode"
)

// settingsReporter is a data plane that depends on settings of the kernel.
type settingsReporter interface {
	Settings() []kernelmode.Setting
}

// Settings returns the settings of the kernel that a plane depends on, with the results of setting
// them.
func Settings(plane dataplane.Plane) []kernelmode.Setting {
	if p, ok := plane.(settingsReporter); ok {
		return p.Settings()
	}
	return nil
}
