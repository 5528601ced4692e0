// Package systemd registers units of systemd: the services on this node whose unit file, or a drop-in
// of it, has the key X-Portolan-Service. docs/systemd.md describes the keys for users.
//
// The package asks systemd over D-Bus which units run, and reads the keys from the unit files, because
// systemd ignores keys that begin with X- and does not return their values. The paths of a unit's files
// come from systemd (FragmentPath, DropInPaths), so templates, drop-ins for a prefix and the order of
// drop-ins are systemd's own. A file that was edited counts from the next daemon-reload on, as for
// systemd itself.
//
// Signals of D-Bus are hints. A signal names a unit, and the package then asks systemd for the state of
// that unit. All units are listed at the start, after a new connection, after a daemon-reload, and at
// the interval of Options.Relist. So a lost signal costs a delay. Units are listed by
// ListUnitsByPatterns, because GetUnit, ListUnitsByNames and properties load a unit that systemd has
// unloaded. That would send the signals UnitNew and UnitRemoved, and each of them would cause the next
// query. Properties are read only of units that the list shows as active.
//
// The package uses github.com/godbus/dbus. The wrapper in github.com/coreos/go-systemd/v22/dbus was the
// alternative. Its subscription delivers units over channels and drops updates when a channel is full,
// it asks for a unit's properties at each signal, which loads the unit, and it has no way to learn that
// the connection ended. With godbus a handler of our own merges signals into a set of names, so a burst
// of signals needs no queue, and the connection's context ends with the connection.
//
// The parser of unit files is our own, too. The one in go-systemd/v22/unit fails for a whole file
// because of one line, which systemd only warns about, and keeps the backslashes of continued lines.
//
// systemd's private socket is not used, although root could do without a message bus. systemd documents
// it as its own, and it needs other subscriptions than a bus.
package systemd
