package weak

import "testing"

func TestAll(t *testing.T) {
	if Larger(1, 2) != 2 || Larger(2, 1) != 2 || !Keep(map[string]int{}, "a") || Count(3) != 3 {
		t.Fail()
	}
}
