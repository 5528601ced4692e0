package systemd

import "time"

// Spell returns the key of a label.
var Spell = spell

// SetTimeout sets the timeout of calls.
func (s *Source) SetTimeout(d time.Duration) { s.timeout = d }

// LastValue returns the last value of a key in a section of a unit file, with specifiers replaced.
func LastValue(content, section, key, unit string) (string, error) {
	last := ""
	for _, a := range assignments(content) {
		if a.section == section && a.key == key {
			last = a.value
		}
	}
	return expand(last, unit)
}
