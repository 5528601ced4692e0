package two

import "testing"

func FuzzFirst(f *testing.F) { f.Fuzz(func(*testing.T, string) {}) }
