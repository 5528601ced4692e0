package lab

// Registries returns where the APIs of the registries are, one address each.
func (l *Lab) Registries() []string { return []string{l.api("registry-0"), l.api("registry-1")} }

// Allocator returns where the API of the allocator is.
func (l *Lab) Allocator() string { return l.api("allocator-0") }

// NATS returns where the NATS servers are.
func (l *Lab) NATS() string { return natsURL(l.brokers...) }

// Ours reports whether the machine runs a daemon of Portolan.
func (m *Machine) Ours() bool { return ports[program(m.Name)] > 0 }
