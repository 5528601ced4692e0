package audit

import (
	"fmt"
	"testing"
	"time"
)

// TestRefusalsAreBounded counts the lines and the memory of more callers than are limited one by
// one.
func TestRefusalsAreBounded(t *testing.T) {
	var r refusals
	now := time.Unix(0, 0)
	allowed := func(callers int) (lines int) {
		for n := range callers {
			if r.allow(fmt.Sprint(n), now) {
				lines++
			}
		}
		return lines
	}
	if n := allowed(5000); n != maxCallers+refusedBurst {
		t.Errorf("5000 callers have %d lines", n)
	}
	if n := len(r.of); n != maxCallers+1 {
		t.Errorf("%d callers are kept", n)
	}
	now = now.Add(time.Minute)
	if n := allowed(2 * maxCallers); n != maxCallers+refusedBurst || len(r.of) > maxCallers+1 {
		t.Errorf("a minute later they have %d lines, %d are kept", n, len(r.of))
	}
	for range refusedBurst {
		r.allow("1", now)
	}
	if r.allow("1", now) || !r.allow("1", now.Add(time.Second/refusedPerSecond)) {
		t.Error("one caller is not limited to its rate")
	}
}
