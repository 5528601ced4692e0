package systemd

import (
	"slices"
	"testing"

	"github.com/godbus/dbus/v5"
)

func TestUnitOfPath(t *testing.T) {
	for path, want := range map[dbus.ObjectPath]string{
		unitPaths + "/web_2eservice":                "web.service",
		unitPaths + "/a_5fb_2dc_5cx2d_40_2eservice": `a_b-c\x2d@.service`,
		unitPaths + "/_":                            "",
		unitPaths + "/web_2":                        "",
		unitPaths + "/web_zz":                       "",
		unitPaths:                                   "",
		"/org/freedesktop/systemd1/job/7":           "",
	} {
		if got, ok := unitOfPath(path); got != want || ok != (want != "") {
			t.Errorf("%s: %q %t, want %q", path, got, ok, want)
		}
	}
}

func TestHints(t *testing.T) {
	properties := func(path string) *dbus.Signal {
		return &dbus.Signal{Name: "org.freedesktop.DBus.Properties.PropertiesChanged", Path: dbus.ObjectPath(unitPaths + path)}
	}
	manager := func(member string, body ...any) *dbus.Signal {
		return &dbus.Signal{Name: "org.freedesktop.systemd1.Manager." + member, Path: managerPath, Body: body}
	}
	for name, c := range map[string]struct {
		signal *dbus.Signal
		want   []string // patterns
	}{
		"properties":         {properties("/web_2eservice"), []string{"web.service"}},
		"of another type":    {properties("/tmp_2emount"), nil},
		"new":                {manager("UnitNew", "web.service", dbus.ObjectPath("/x")), []string{"web.service"}},
		"removed":            {manager("UnitRemoved", "web.service", dbus.ObjectPath("/x")), []string{"web.service"}},
		"job":                {manager("JobNew", uint32(7), dbus.ObjectPath("/x"), "web.service"), []string{"web.service"}},
		"job removed":        {manager("JobRemoved", uint32(7), dbus.ObjectPath("/x"), "web.service", "done"), []string{"web.service"}},
		"malformed":          {manager("JobNew", uint32(7)), nil},
		"reload begins":      {manager("Reloading", true), nil},
		"reloaded":           {manager("Reloading", false), []string{"*.service"}},
		"another":            {manager("UnitFilesChanged"), nil},
		"systemd goes":       {&dbus.Signal{Name: "org.freedesktop.DBus.NameOwnerChanged", Body: []any{systemdName, ":1.0", ""}}, nil},
		"systemd comes back": {&dbus.Signal{Name: "org.freedesktop.DBus.NameOwnerChanged", Body: []any{systemdName, "", ":1.9"}}, []string{"*.service"}},
	} {
		h := newHints()
		h.DeliverSignal("", "", c.signal)
		taken := h.take()
		if got := taken.patterns(); !slices.Equal(got, c.want) || len(h.wake) != min(1, len(c.want)) {
			t.Errorf("%s: %q with %d wake-ups, want %q", name, got, len(h.wake), c.want)
		}
		if again := h.take().patterns(); len(again) != 0 {
			t.Errorf("%s: %q comes again", name, again)
		}
	}
}
