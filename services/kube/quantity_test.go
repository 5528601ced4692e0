package kube

import (
	"strings"
	"testing"
)

// TestQuantities checks which quantities are valid, and that a body with a quantity that takes Kubernetes' decoder
// a long time is found.
func TestQuantities(t *testing.T) {
	for text, valid := range map[string]bool{
		"2": true, "500m": true, "64Mi": true, "-1.5": true, ".5": true, "1e3": true, "1E-9": true, "123456789012345678901e999": true, "1E": true,
		strings.Repeat("9", 64): true,
		"":                      false, "Mi": false, "1e": false, "1e9999": false, "1e+00000001": false, "123456789012345678901e9999999": false,
		strings.Repeat("9", 65): false, "1 ": false,
	} {
		if ValidQuantity(text) != valid {
			t.Errorf("%q is valid: %v", text, !valid)
		}
	}
	for text, found := range map[string]bool{
		`{"cpu":"123456789012345678901e9999999"}`: true, `{"cpu":1.5E-1000}`: true, `{"cpu":"` + strings.Repeat("1", 65) + `"}`: true,
		`{"cpu":"0.e+1234"}`: true, `{"uid":"a1e123f"}`: false, `{"cpu":"123e123"}`: false, `{"name":"node-12345678"}`: false, `{"text":"1e- 1234"}`: false,
	} {
		if MayHaveLongQuantity([]byte(text)) != found {
			t.Errorf("%s is found: %v", text, !found)
		}
	}
}

// FuzzLongQuantity checks that a text that is too long for Kubernetes' decoder, or has an exponent that is, is found in
// any body.
func FuzzLongQuantity(f *testing.F) {
	f.Add("123456789012345678901", "9999999", "x")
	f.Add(".", "-0001", "1e")
	f.Fuzz(func(t *testing.T, mantissa, exponent, before string) {
		text := mantissa + "e" + exponent
		if strings.Trim(mantissa, "0123456789.") != "" || mantissa == "" || strings.Trim(strings.TrimLeft(exponent, "+-")+"0", "0123456789") != "" {
			return
		}
		digits := strings.TrimPrefix(strings.TrimPrefix(exponent, "+"), "-")
		if strings.Trim(digits, "0123456789") != "" || len(digits) <= maxExponent || len(exponent)-len(digits) > 1 {
			return
		}
		if !MayHaveLongQuantity([]byte(before + `"` + text + `"`)) {
			t.Errorf("%q is not found", text)
		}
	})
}
