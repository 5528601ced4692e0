package pass

import "testing"

func TestOne(t *testing.T) {
	t.Log("quiet as long as it passes")
	t.Run("sub", func(*testing.T) {})
}
