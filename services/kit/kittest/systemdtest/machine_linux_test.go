package systemdtest

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// TestMachine checks that a machine runs units, that it has none of the real machine's units, and that its
// files are not on the real machine.
func TestMachine(t *testing.T) {
	m := Start(t)
	m.WriteUnit("portolan-test-web.service", "[Service]\nExecStart=sleep infinity\n")
	m.Systemctl("start", "portolan-test-web.service")
	var running []string
	for line := range strings.Lines(m.Systemctl("list-units", "--all", "--plain", "--no-legend", "--type=service", "--state=running")) {
		running = append(running, strings.Fields(line)[0])
	}
	if want := []string{"dbus.service", "portolan-test-web.service"}; !slices.Equal(running, want) {
		t.Errorf("running units are %q, want %q", running, want)
	}
	if _, err := os.Stat(unitDir + "/portolan-test-web.service"); !os.IsNotExist(err) {
		t.Errorf("the unit file is on the real machine: %v", err)
	}
	if _, err := m.Run("systemctl", "start", "missing.service"); err == nil || !strings.Contains(err.Error(), "missing.service not found") {
		t.Errorf("starting a missing unit: %v", err)
	}
}
