package nodeagent

import "portolan.dev/nodeagent/dataplane/host"

// settled is a data plane that depends on settings of the kernel.
type settled interface {
	Settings() []host.Setting
}

// settings returns the kernel's settings with the results of setting them.
func (a *Agent) settings() []host.Setting {
	if p, ok := a.plane.(settled); ok {
		return p.Settings()
	}
	return nil
}

// tellSettings writes an event for each setting that could not be made, because no step fails for
// that reason.
func (a *Agent) tellSettings() {
	for _, s := range a.settings() {
		if s.Err != nil {
			a.events.warnNode(reasonKernelSetting, s.String())
		}
	}
}

// fellBack records that the agent uses another mode than the configured one.
func (a *Agent) fellBack(message string) {
	a.fallback = message
	a.events.warnNode(reasonProxyModeFallback, message)
}
