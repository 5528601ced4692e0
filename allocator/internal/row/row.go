package row

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"portolan.dev/allocator/store"
)

// claim is a claim in its stored form: [slot, 1 if confirmed, milliseconds since 1970].
type claim [3]any

// EncodeClaims returns claims as a list in JSON.
func EncodeClaims(claims []store.Claim) (string, error) {
	stored := make([]claim, len(claims))
	for i, c := range claims {
		confirmed := 0
		if c.Confirmed {
			confirmed = 1
		}
		stored[i] = claim{c.Slot, confirmed, Millis(c.Since)}
	}
	text, err := json.Marshal(stored)
	if err != nil {
		return "", fmt.Errorf("encode claims: %w", err)
	}
	return string(text), nil
}

// DecodeClaims returns the claims in a list that EncodeClaims returned.
func DecodeClaims(text []byte) ([]store.Claim, error) {
	var stored []claim
	if err := json.Unmarshal(text, &stored); err != nil {
		return nil, fmt.Errorf("claims: %w", err)
	}
	var claims []store.Claim
	for _, c := range stored {
		slot, isText := c[0].(string)
		confirmed, isNumber := c[1].(float64)
		since, isTime := c[2].(float64)
		if !isText || !isNumber || !isTime {
			return nil, errClaim
		}
		claims = append(claims, store.Claim{Slot: slot, Confirmed: confirmed != 0, Since: FromMillis(int64(since))})
	}
	return claims, nil
}

var errClaim = errors.New("claims: want [slot, confirmed, since]")

// Millis returns a time in milliseconds since 1970, and 0 for the zero time.
func Millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// FromMillis is the inverse of Millis.
func FromMillis(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}
