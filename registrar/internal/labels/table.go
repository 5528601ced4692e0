package labels

import "strings"

// The names of the labels. A name that ends in a dot is a prefix, and the user chooses the text after it, as
// in port.http.
const (
	// Service is the name of the service that the workload is a backend of.
	Service = "service"
	// Namespace is the namespace of the service.
	Namespace = "namespace"
	// Port is a port of the workload, such as 8000 or 53/udp. The user's text is the port's name.
	Port = "port."
	// PodLabel is a label of the pod. The user's text is the key of the pod's label.
	PodLabel = "labels."
	// Weight is the share of traffic relative to other backends, from 0 to 65535.
	Weight = "weight"
	// Ready is the check of readiness, in the form of probe.Parse.
	Ready = "ready"
	// Drain is the time for which connections may continue after the workload was asked to stop, such as 10s.
	Drain = "drain"
	// Network is the network of the container in which its address is registered.
	Network = "network"
	// Publish is true if the node's address and the published ports of the container are registered.
	Publish = "publish"
	// Ignore is true if the container is not registered.
	Ignore = "ignore"
	// Address is the address of the unit, or one address of each family.
	Address = "address"
)

// The prefixes of the spellings.
const (
	dockerPrefix  = "portolan."
	systemdPrefix = "X-Portolan-"
)

// row is a row of the table.
type row struct {
	name string
	// docker and systemd are the spellings of the label. They are empty if the source does not have it. The
	// spelling of a prefix is a prefix, too.
	docker, systemd string
	// read stores the value of the label in the reader's settings. suffix is the text that the user chose
	// after a prefix. It is nil for a label that only one source has, which reads it itself.
	read func(r *Reader, suffix, value string) error
}

// table is the table of all labels. Messages list the labels in this order.
var table = []row{
	{name: Service, docker: dockerPrefix + "service", systemd: systemdPrefix + "Service", read: (*Reader).readService},
	{name: Namespace, docker: dockerPrefix + "namespace", systemd: systemdPrefix + "Namespace", read: (*Reader).readNamespace},
	{name: Port, docker: dockerPrefix + "port.", systemd: systemdPrefix + "Port-", read: (*Reader).readPort},
	{name: PodLabel, docker: dockerPrefix + "labels.", systemd: systemdPrefix + "Label-", read: (*Reader).readPodLabel},
	{name: Weight, docker: dockerPrefix + "weight", systemd: systemdPrefix + "Weight", read: (*Reader).readWeight},
	{name: Ready, docker: dockerPrefix + "ready", systemd: systemdPrefix + "Ready", read: (*Reader).readReady},
	{name: Drain, docker: dockerPrefix + "drain", systemd: systemdPrefix + "Drain", read: (*Reader).readDrain},
	{name: Network, docker: dockerPrefix + "network"},
	{name: Publish, docker: dockerPrefix + "publish"},
	{name: Ignore, docker: dockerPrefix + "ignore"},
	{name: Address, systemd: systemdPrefix + "Address"},
}

// rowOf returns the row of a label and the text that the user chose, if the row is a prefix. The row is nil
// if the label is not known.
func rowOf(name string) (found *row, suffix string) {
	for i := range table {
		if suffix, ok := cutName(name, table[i].name, table[i].name); ok {
			return &table[i], suffix
		}
	}
	return nil, ""
}

// cutName cuts the spelling of a label off a text, and returns the text that the user chose. It reports
// whether the text is this label.
func cutName(text, spelling, name string) (suffix string, ok bool) {
	suffix, ok = strings.CutPrefix(text, spelling)
	return suffix, ok && (suffix == "" || strings.HasSuffix(name, "."))
}

// Spelling is the way in which users of a source write labels.
type Spelling struct {
	// Prefix begins every label.
	Prefix string
	column func(*row) string
}

// The spellings of Docker's labels and of the keys of systemd's unit files.
var (
	Docker  = Spelling{Prefix: dockerPrefix, column: func(r *row) string { return r.docker }}
	Systemd = Spelling{Prefix: systemdPrefix, column: func(r *row) string { return r.systemd }}
)

// Spell returns a label as users write it: portolan.port.http for port.http. A name that is not known is
// returned as it is.
func (s Spelling) Spell(name string) string {
	if found, suffix := rowOf(name); found != nil && s.column(found) != "" {
		return s.column(found) + suffix
	}
	return name
}

// Name returns the name of a label that a user has written: port.http for portolan.port.http. A label that
// is not known is returned as it is. Case matters.
func (s Spelling) Name(written string) string {
	for i := range table {
		spelling := s.column(&table[i])
		if spelling == "" {
			continue
		}
		if suffix, ok := cutName(written, spelling, table[i].name); ok {
			return table[i].name + suffix
		}
	}
	return written
}

// Names returns the names of all labels of the spelling. Prefixes end in NAME.
func (s Spelling) Names() []string {
	var names []string
	for i := range table {
		if s.column(&table[i]) == "" {
			continue
		}
		name := table[i].name
		if strings.HasSuffix(name, ".") {
			name += "NAME"
		}
		names = append(names, name)
	}
	return names
}
