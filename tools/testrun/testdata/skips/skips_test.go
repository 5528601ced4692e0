package skips

import "testing"

func TestAllowed(t *testing.T) { t.Skip("allowed: only on a Tuesday") }

func TestMissing(t *testing.T) {
	t.Log("looked for it")
	t.Skipf("no %s here", "database")
}

func TestSilent(t *testing.T) { t.SkipNow() }
