package yardstick

import (
	"fmt"
	"strings"
)

// Target is what a figure is to reach. The zero value is none.
type Target struct {
	sign  string
	bound float64
}

// AtMost is the target of a figure that is the better the smaller it is.
func AtMost(bound float64) Target { return Target{"≤", bound} }

// AtLeast is the target of a figure that is the better the larger it is.
func AtLeast(bound float64) Target { return Target{"≥", bound} }

// Missed reports whether a value misses the target. A value that is no number misses every target.
func (t Target) Missed(value float64) bool {
	switch t.sign {
	case "≤":
		return !(value <= t.bound)
	case "≥":
		return !(value >= t.bound)
	}
	return false
}

// Line returns the line of a figure.
func Line(name string, value float64, target Target) string {
	line := fmt.Sprintf("ratio %s %s", name, trim(value))
	if target.sign != "" {
		line += fmt.Sprintf(" (%s %s)", target.sign, trim(target.bound))
	}
	if target.Missed(value) {
		line += " MISSED"
	}
	return line
}

// trim formats a number with three decimals, and without those that are zero at the end.
func trim(value float64) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.3f", value), "0"), ".")
}
