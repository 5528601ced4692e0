package systemd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/godbus/dbus/v5"
	"github.com/prometheus/client_golang/prometheus"
)

// Names of D-Bus and of systemd's interface, see org.freedesktop.systemd1(5).
const (
	busInterface        = "org.freedesktop.DBus"
	propertiesInterface = "org.freedesktop.DBus.Properties"
	systemdName         = "org.freedesktop.systemd1"
	managerPath         = "/org/freedesktop/systemd1"
	managerInterface    = "org.freedesktop.systemd1.Manager"
	unitPaths           = "/org/freedesktop/systemd1/unit"
	unitInterface       = "org.freedesktop.systemd1.Unit"
	serviceInterface    = "org.freedesktop.systemd1.Service"
)

// defaultTimeout limits one call, and one attempt to connect. systemd does not answer while it reloads its
// units, which takes seconds with thousands of units. 25 s is the default of D-Bus' own libraries.
const defaultTimeout = 25 * time.Second

var (
	errEnded  = errors.New("the connection to the bus has ended")
	errSilent = errors.New("the bus does not answer")
	errGone   = errors.New("the unit is not loaded")
)

// rules select the signals that become hints. With each change of a unit, systemd sends PropertiesChanged for
// the interface Unit. So its PropertiesChanged for the interface Service is not needed.
var rules = [][]dbus.MatchOption{
	{
		dbus.WithMatchSender(systemdName), dbus.WithMatchInterface(propertiesInterface), dbus.WithMatchMember("PropertiesChanged"),
		dbus.WithMatchPathNamespace(unitPaths), dbus.WithMatchArg(0, unitInterface),
	},
	{dbus.WithMatchSender(systemdName), dbus.WithMatchInterface(managerInterface), dbus.WithMatchObjectPath(managerPath)},
	{dbus.WithMatchSender(busInterface), dbus.WithMatchInterface(busInterface), dbus.WithMatchMember("NameOwnerChanged"), dbus.WithMatchArg(0, systemdName)},
}

// bus is a connection to systemd over a message bus.
type bus struct {
	conn    *dbus.Conn
	timeout time.Duration // of a call
	calls   *prometheus.CounterVec
}

// listed is a unit as ListUnitsByPatterns returns it. D-Bus sets the fields by their order.
type listed struct {
	Name, Description, LoadState, ActiveState, SubState, Following string
	Path                                                           dbus.ObjectPath
	JobID                                                          uint32
	JobType                                                        string
	JobPath                                                        dbus.ObjectPath
}

// connect connects to the bus, and delivers systemd's signals to hints. The connection ends when ctx is done.
func (s *Source) connect(ctx context.Context, hints *hints) (*bus, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	// The library has no timeout for the handshake, but ends it when the context is done.
	late := time.AfterFunc(s.timeout, func() { cancel(errSilent) })
	conn, err := dbus.Connect(s.options.Address, dbus.WithContext(ctx), dbus.WithSignalHandler(hints))
	late.Stop()
	if err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		err = cmp.Or(context.Cause(ctx), err)
		cancel(err)
		return nil, fmt.Errorf("connect to the bus at %s: %w", s.options.Address, err)
	}
	b := &bus{conn: conn, timeout: s.timeout, calls: s.calls}
	context.AfterFunc(conn.Context(), func() { cancel(errEnded) })
	for _, rule := range rules {
		if err := b.match(ctx, rule); err != nil {
			b.close()
			return nil, fmt.Errorf("subscribe to signals at %s: %w", s.options.Address, err)
		}
	}
	return b, nil
}

func (b *bus) match(ctx context.Context, rule []dbus.MatchOption) error {
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	return b.conn.AddMatchSignalContext(ctx, rule...)
}

// close ends the connection. It ignores the error, because nothing is left to write.
func (b *bus) close() { _ = b.conn.Close() }

// ended returns a channel that is closed when the connection has ended.
func (b *bus) ended() <-chan struct{} { return b.conn.Context().Done() }

// subscribe asks systemd to send signals. It is needed again after systemd has left the bus, because systemd
// forgets its subscribers then.
func (b *bus) subscribe(ctx context.Context) error {
	err := b.call(ctx, managerPath, managerInterface+".Subscribe", nil)
	if remote := (dbus.Error{}); errors.As(err, &remote) && remote.Name == systemdName+".AlreadySubscribed" {
		return nil
	}
	return err
}

// list returns the loaded units that match one of the patterns.
func (b *bus) list(ctx context.Context, patterns []string) ([]listed, error) {
	var units []listed
	return units, b.call(ctx, managerPath, managerInterface+".ListUnitsByPatterns", &units, []string{}, patterns)
}

// property reads a property of a unit. It returns the zero value if this version of systemd does not have the
// property, and errGone if the unit was unloaded meanwhile.
func property[T any](ctx context.Context, b *bus, path dbus.ObjectPath, iface, name string) (T, error) {
	var value T
	var variant dbus.Variant
	err := b.call(ctx, path, propertiesInterface+".Get", &variant, iface, name)
	if err == nil {
		return value, variant.Store(&value)
	}
	remote := dbus.Error{}
	if errors.As(err, &remote) {
		switch remote.Name {
		case "org.freedesktop.DBus.Error.UnknownProperty":
			return value, nil
		case "org.freedesktop.DBus.Error.UnknownObject", "org.freedesktop.DBus.Error.UnknownInterface", systemdName + ".NoSuchUnit":
			return value, errGone
		}
	}
	return value, err
}

// call calls a method of systemd. It stores the answer in result, unless result is nil.
func (b *bus) call(ctx context.Context, path dbus.ObjectPath, method string, result any, args ...any) error {
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	call := b.conn.Object(systemdName, path).CallWithContext(ctx, method, 0, args...)
	b.calls.WithLabelValues(member(method)).Inc()
	err := call.Err
	if err == nil && result != nil {
		err = call.Store(result)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	return nil
}
