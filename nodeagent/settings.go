package nodeagent

import (
	"portolan.dev/nodeagent/dataplane/kernel"
)

// settled is a data plane that stands on settings of the kernel.
type settled interface {
	Settings() []kernel.Setting
}

// settings are the kernel's, as the data plane has set them or would have.
func (a *Agent) settings() []kernel.Setting {
	if p, ok := a.plane.(settled); ok {
		return p.Settings()
	}
	return nil
}

// tellSettings writes an event for each setting that could not be made: what
// does not work because of it is in no step.
func (a *Agent) tellSettings() {
	for _, s := range a.settings() {
		if s.Err != nil {
			a.events.warnNode(reasonKernelSetting, s.String())
		}
	}
}

// fellBack notes that the agent forwards in another mode than it was asked to.
func (a *Agent) fellBack(message string) {
	a.fallback = message
	a.events.warnNode(reasonProxyModeFallback, message)
}
