package bearer

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strings"
)

// Header is the header in which clients send a token, after the scheme "Bearer".
const Header = "Authorization"

const (
	prefix = "portolan."
	// secretBytes is the size of a secret before it is encoded.
	secretBytes = 32
	// maxName is the longest name of an object, in bytes.
	maxName = 253
)

// secretLength is the length of a secret.
var secretLength = base64.RawURLEncoding.EncodedLen(secretBytes)

// NewSecret makes a secret.
func NewSecret() string {
	var random [secretBytes]byte
	rand.Read(random[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(random[:])
}

// Text returns the text that a client sends for the token with a name.
func Text(name, secret string) string { return prefix + name + "." + secret }

// Sum returns the hash of a secret that the registry stores.
func Sum(secret string) [sha256.Size]byte { return sha256.Sum256([]byte(secret)) }

// Parse returns the parts of the text of a token. ok is false for any other text.
func Parse(text string) (name, secret string, ok bool) {
	rest, ok := strings.CutPrefix(text, prefix)
	end := strings.LastIndexByte(rest, '.')
	if !ok || end <= 0 || end > maxName || len(rest)-end-1 != secretLength {
		return "", "", false
	}
	return rest[:end], rest[end+1:], true
}

// FromRequest returns the text after the scheme "Bearer" in the header of a request. sent is false if the
// request has no such header; text is empty if it has several, or one of another scheme.
func FromRequest(r *http.Request) (text string, sent bool) {
	values := r.Header.Values(Header)
	if len(values) != 1 {
		return "", len(values) > 0
	}
	scheme, text, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", true
	}
	return strings.TrimSpace(text), true
}
