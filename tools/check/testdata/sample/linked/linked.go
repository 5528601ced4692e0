// Package linked has a finding, one that is annotated, and annotations that lack something.
package linked

import "math/rand/v2"

// Draw draws numbers.
func Draw() {
	print(rand.Int())
	print(rand.Int()) // #nosec G404 -- it is no secret
	print(rand.Int()) // #nosec G404
	print(rand.Int()) // #nosec -- it is no secret
	print(rand.Int()) // #nosec G402 -- another rule
}
