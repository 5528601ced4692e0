package one

import "testing"

func FuzzFirst(f *testing.F)  { f.Fuzz(func(*testing.T, string) {}) }
func FuzzSecond(f *testing.F) { f.Fuzz(func(*testing.T, string) {}) }
