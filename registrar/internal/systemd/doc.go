// Package systemd registers units of systemd: the services on this node with the key X-Portolan-Service in
// their unit file or in a drop-in. docs/systemd.md describes the keys for users.
//
// The package asks systemd over D-Bus which units run, and reads the keys from the unit files, because
// systemd ignores keys that begin with X- and does not return their values. The paths of a unit's files
// come from systemd (FragmentPath, DropInPaths), so templates, drop-ins for a prefix and the order of
// drop-ins are systemd's own. A file that was edited counts from the next daemon-reload on, as for
// systemd itself.
//
// Signals of D-Bus are hints. After a signal about a unit, the package asks systemd for the state of this
// unit. It lists all units at the start, after each reconnect, after a daemon-reload, and at the interval of
// Options.Relist. So a lost signal costs a delay.
//
// Units are listed by ListUnitsByPatterns, because GetUnit, ListUnitsByNames and the reading of properties
// load a unit that systemd has unloaded. systemd would then send UnitNew and UnitRemoved, and each of these
// signals would cause the next query. For the same reason the package reads properties only of units that the
// list shows as active.
//
// The package uses github.com/godbus/dbus. The wrapper in github.com/coreos/go-systemd/v22/dbus was the
// alternative. Its subscription drops updates when a channel is full, it reads a unit's properties at each
// signal, which loads the unit, and it does not report the end of the connection. With godbus, a handler of
// this package merges signals into a set of names, so a burst of signals needs no queue, and the
// connection's context ends with the connection.
//
// The parser of unit files is part of this package, too. The parser of go-systemd/v22/unit rejects a whole
// file because of one line about which systemd only warns, and keeps the backslashes of continued lines.
//
// The package does not use systemd's private socket, although root could reach systemd there without a
// message bus. systemd documents the socket as internal, and subscriptions work differently there.
package systemd
