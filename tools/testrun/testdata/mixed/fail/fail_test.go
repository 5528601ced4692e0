package fail

import "testing"

func TestGood(t *testing.T) { t.Log("of the good one") }

func TestBad(t *testing.T) {
	t.Log("first line of the bad one")
	t.Run("worse", func(t *testing.T) { t.Error("got 1, want 2") })
}
