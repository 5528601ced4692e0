package failing

import "testing"

func TestFails(t *testing.T) { t.Error("it fails without a mutant, too") }
