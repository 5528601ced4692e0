// Package testonly is linked into no program.
package testonly

import "math/rand/v2"

// Draw draws a number.
func Draw() int { return rand.Int() }
