package systemd_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"portolan.dev/registrar/internal/systemd"
	"portolan.dev/registrar/source"
	"portolan.dev/registrar/sourcetest"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/kittest/systemdtest"
)

func TestContract(t *testing.T) {
	sourcetest.Run(t, func(t *testing.T) sourcetest.World {
		return &world{t: t, Machine: systemdtest.Start(t)}
	})
}

// world is a real systemd in which the suite starts units.
type world struct {
	*systemdtest.Machine
	t       *testing.T
	started int
}

func (w *world) Source() source.Source {
	return systemd.New(systemd.Options{Address: w.BusAddress(), Root: w.Root(), Relist: never, Log: kittest.Logger(w.t), Metrics: prometheus.NewRegistry()})
}

// Start starts a unit with labels as keys. After Stop, the unit runs until Finish writes a file.
func (w *world) Start(labels map[string]string) string {
	w.t.Helper()
	w.started++
	id := fmt.Sprintf("contract%d.service", w.started)
	var content strings.Builder
	content.WriteString("[Service]\nExecStart=sleep infinity\n")
	content.WriteString(`ExecStop=sh -c 'test -z "$MAINPID" || until test -e /run/finish/%n; do sleep 0.02; done'` + "\n")
	for label, value := range labels {
		content.WriteString(systemd.Spell(label) + "=" + value + "\n")
	}
	w.WriteUnit(id, content.String())
	w.Systemctl("start", id)
	return id
}

func (w *world) Stop(id string) { w.t.Helper(); w.Systemctl("stop", "--no-block", id) }

func (w *world) Finish(id string) { w.t.Helper(); w.Write("/run/finish/"+id, "") }

func (w *world) Kill(id string) { w.t.Helper(); w.Systemctl("kill", "--signal=KILL", id) }

func (w *world) Disconnect() { w.t.Helper(); w.Systemctl("stop", "dbus.socket", "dbus.service") }

func (w *world) Reconnect() { w.t.Helper(); w.Systemctl("start", "dbus.service") }
