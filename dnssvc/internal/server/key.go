package server

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// Key is a secret that the name server shares with a secondary (TSIG, RFC 8945).
type Key struct {
	Name      string // in lower case, with a final dot
	Algorithm string // as in TSIG records
	secret    string // in base64
}

// Keys are keys by name.
type Keys map[string]Key

// algorithms are the algorithms that RFC 8945 recommends. HMAC-MD5 and HMAC-SHA1 are left out
// because every secondary supports a better one.
var algorithms = []string{dns.HmacSHA256, dns.HmacSHA384, dns.HmacSHA512}

// minSecret is the shortest length of a secret, in bytes: half the hash of HMAC-SHA256.
const minSecret = 16

// KeyName returns the name of a key in the form of Keys.
func KeyName(name string) string { return dns.CanonicalName(name) }

// ReadKeys reads keys in the format that tsig-keygen writes and that BIND and dig read. Its errors
// do not contain secrets.
func ReadKeys(path string) (Keys, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	keys, err := parseKeys(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return keys, nil
}

var punctuation = strings.NewReplacer("{", " { ", "}", " } ", ";", " ; ")

func parseKeys(text string) (Keys, error) {
	var words []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "//") {
			words = append(words, strings.Fields(punctuation.Replace(line))...)
		}
	}
	keys := Keys{}
	for len(words) > 0 {
		end := slices.Index(words, "}")
		if words[0] != "key" || end < 3 || words[2] != "{" || end+1 >= len(words) || words[end+1] != ";" {
			return nil, fmt.Errorf("key %d: want: key NAME { algorithm hmac-sha256; secret BASE64; };", len(keys)+1)
		}
		key, err := newKey(unquote(words[1]), words[3:end])
		if err != nil {
			return nil, fmt.Errorf("key %s: %w", words[1], err)
		}
		if _, twice := keys[key.Name]; twice {
			return nil, fmt.Errorf("key %s: is there twice", words[1])
		}
		keys[key.Name] = key
		words = words[end+2:]
	}
	if len(keys) == 0 {
		return nil, errors.New("has no key; tsig-keygen makes one")
	}
	return keys, nil
}

// newKey makes a key from the words between the braces.
func newKey(name string, words []string) (Key, error) {
	key := Key{Name: KeyName(name)}
	if _, ok := dns.IsDomainName(name); !ok || key.Name == "." {
		return Key{}, errors.New("the name of a key has to be a domain name")
	}
	for ; len(words) >= 3 && words[2] == ";"; words = words[3:] {
		switch words[0] {
		case "algorithm":
			key.Algorithm = dns.CanonicalName(unquote(words[1]))
		case "secret":
			key.secret = unquote(words[1])
		default:
			return Key{}, errors.New("a key has an algorithm and a secret, and nothing else")
		}
	}
	raw, err := base64.StdEncoding.DecodeString(key.secret)
	switch {
	case len(words) > 0:
		return Key{}, errors.New("want: algorithm NAME; secret BASE64;")
	case !slices.Contains(algorithms, key.Algorithm):
		return Key{}, errors.New("algorithm: want hmac-sha256, hmac-sha384 or hmac-sha512")
	case err != nil:
		return Key{}, errors.New("secret: is not base64")
	case len(raw) < minSecret:
		return Key{}, fmt.Errorf("secret: has %d bytes, want at least %d: tsig-keygen makes one", len(raw), minSecret)
	}
	return key, nil
}

func unquote(word string) string { return strings.Trim(word, `"`) }
