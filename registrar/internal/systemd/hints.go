package systemd

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/godbus/dbus/v5"

	"portolan.dev/services/kit/wake"
)

// suffix is the end of the names of services. Units of other types are not registered.
const suffix = ".service"

// hints collects the units that have changed according to signals, until take is called. It implements
// dbus.SignalHandler. Its size is bounded by the number of units.
type hints struct {
	wake wake.Signal // is sent when there is a hint

	mu      sync.Mutex
	changed changed
}

// changed are the units to read again.
type changed struct {
	all   bool            // all units
	names map[string]bool // these units
}

func newHints() *hints {
	return &hints{wake: wake.New(), changed: changed{names: map[string]bool{}}}
}

// take returns the hints and removes them.
func (h *hints) take() changed {
	h.mu.Lock()
	defer h.mu.Unlock()
	taken := h.changed
	h.changed = changed{names: map[string]bool{}}
	return taken
}

func (h *hints) addAll() {
	h.mu.Lock()
	h.changed.all = true
	h.mu.Unlock()
	h.wake.Send()
}

func (h *hints) add(unit string) {
	if !strings.HasSuffix(unit, suffix) {
		return
	}
	h.mu.Lock()
	h.changed.names[unit] = true
	h.mu.Unlock()
	h.wake.Send()
}

// DeliverSignal turns a signal into a hint. It never blocks, because the library calls it in the goroutine
// that reads the connection.
func (h *hints) DeliverSignal(_, _ string, signal *dbus.Signal) {
	switch signal.Name {
	case propertiesInterface + ".PropertiesChanged":
		if unit, ok := unitOfPath(signal.Path); ok {
			h.add(unit)
		}
	case managerInterface + ".UnitNew", managerInterface + ".UnitRemoved":
		h.add(text(signal.Body, 0))
	case managerInterface + ".JobNew", managerInterface + ".JobRemoved":
		h.add(text(signal.Body, 2))
	case managerInterface + ".Reloading":
		if len(signal.Body) == 1 && signal.Body[0] == false {
			h.addAll()
		}
	case busInterface + ".NameOwnerChanged":
		if text(signal.Body, 2) != "" { // systemd is back on the bus after it executed itself again
			h.addAll()
		}
	}
}

// patterns returns patterns for ListUnitsByPatterns that match the changed units. The names of units need no
// escaping: they have no special characters of patterns, and systemd takes a backslash literally.
func (c changed) patterns() []string {
	if c.all {
		return []string{"*" + suffix}
	}
	return slices.Sorted(maps.Keys(c.names))
}

// text returns the string at a position of a signal's body, or "" if there is none.
func text(body []any, at int) string {
	if at >= len(body) {
		return ""
	}
	s, _ := body[at].(string)
	return s
}

// unitOfPath returns the name of the unit with a path such as /org/freedesktop/systemd1/unit/web_2eservice.
// In a path, each byte except letters and digits is written as an underscore and two hexadecimal digits.
func unitOfPath(path dbus.ObjectPath) (string, bool) {
	label, ok := strings.CutPrefix(string(path), unitPaths+"/")
	if !ok {
		return "", false
	}
	var name strings.Builder
	for rest := label; rest != ""; {
		before, after, escaped := strings.Cut(rest, "_")
		name.WriteString(before)
		if !escaped {
			break
		}
		if len(after) < 2 {
			return "", false
		}
		b, err := strconv.ParseUint(after[:2], 16, 8)
		if err != nil {
			return "", false
		}
		name.WriteByte(byte(b))
		rest = after[2:]
	}
	return name.String(), true
}
