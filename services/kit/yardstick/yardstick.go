package yardstick

import (
	"fmt"
	"strings"
)

// Target is a bound for a value. The zero value has no bound.
type Target struct {
	sign  string
	bound float64
}

// AtMost returns the target of a value that must not exceed bound.
func AtMost(bound float64) Target { return Target{"≤", bound} }

// AtLeast returns the target of a value that must not be below bound.
func AtLeast(bound float64) Target { return Target{"≥", bound} }

// Missed reports whether a value misses the target. NaN misses every target.
func (t Target) Missed(value float64) bool {
	switch t.sign {
	case "≤":
		return !(value <= t.bound)
	case "≥":
		return !(value >= t.bound)
	}
	return false
}

// Line returns the output line of a value.
func Line(name string, value float64, target Target) string {
	line := fmt.Sprintf("ratio %s %s", name, formatValue(value))
	if target.sign != "" {
		line += fmt.Sprintf(" (%s %s)", target.sign, formatValue(target.bound))
	}
	if target.Missed(value) {
		line += " MISSED"
	}
	return line
}

// formatValue formats a number with three decimals, without trailing zeros.
func formatValue(value float64) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.3f", value), "0"), ".")
}
