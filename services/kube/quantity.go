package kube

import "regexp"

// MaxQuantity is the largest size of the text of a quantity, in bytes. Kubernetes' decoder needs seconds for a
// million digits.
const MaxQuantity = 64

// maxExponent is the largest number of digits of an exponent. Kubernetes' decoder computes for seconds on an
// exponent of seven digits, and without end on a longer one.
const maxExponent = 3

// quantityText is stricter than Kubernetes' decoder, which also takes a sign or a unit without a number.
var quantityText = regexp.MustCompile(`^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,3})?$`)

// ValidQuantity reports whether a text without blanks around it is a quantity such as 2, 500m or 64Mi, for which
// Kubernetes' decoder takes a short time.
func ValidQuantity(text string) bool {
	return len(text) <= MaxQuantity && quantityText.MatchString(text)
}

// MayHaveLongQuantity reports whether an encoded object may have a quantity for which Kubernetes' decoder takes a
// long time: it has a number that is too long, or that has an exponent that is too long.
func MayHaveLongQuantity(encoded []byte) bool {
	size, exponent := 0, -1 // of the number, and of its exponent; -1: it has none so far
	for i, b := range encoded {
		switch {
		case b >= '0' && b <= '9':
			size++
			if exponent >= 0 {
				exponent++
			}
		case b == '.':
			size++
		case (b == 'e' || b == 'E') && size > 0:
			exponent = 0
		case (b == '+' || b == '-') && exponent == 0 && (encoded[i-1] == 'e' || encoded[i-1] == 'E'):
		default:
			size, exponent = 0, -1
		}
		if size > MaxQuantity || exponent > maxExponent {
			return true
		}
	}
	return false
}
