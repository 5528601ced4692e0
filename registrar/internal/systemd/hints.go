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

// hints collects what signals say has changed, until it is read. It implements dbus.SignalHandler. Its
// size is bounded by the number of units.
type hints struct {
	wake wake.Signal // is sent when there is a hint

	mu      sync.Mutex
	changed changed
}

// changed is what has to be read again.
type changed struct {
	all   bool
	names map[string]bool // unit names
}

func newHints() *hints {
	return &hints{wake: wake.New(), changed: changed{names: map[string]bool{}}}
}

// take returns the hints, and forgets them.
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

// DeliverSignal turns a signal into a hint. The library calls it from the goroutine that reads the
// connection, so it never waits.
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

// patterns returns the patterns that match what has changed. Names of units have none of the special
// characters of patterns, and systemd takes a backslash literally.
func (c changed) patterns() []string {
	if c.all {
		return []string{"*" + suffix}
	}
	return slices.Sorted(maps.Keys(c.names))
}

// text returns a string of a message's body, and "" if there is none.
func text(body []any, at int) string {
	if at >= len(body) {
		return ""
	}
	s, _ := body[at].(string)
	return s
}

// unitOfPath returns the name of the unit of a path such as /org/freedesktop/systemd1/unit/web_2eservice.
// In paths each byte other than a letter or digit is an underscore and two hexadecimal digits.
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
