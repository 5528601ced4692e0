package jsonline_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"portolan.dev/services/kit/jsonline"
)

func TestAppendString(t *testing.T) {
	for text, want := range map[string]string{
		"":                 `""`,
		"plain":            `"plain"`,
		"\"\\":             `"\"\\"`,
		"a\nb\x00\x7f":     `"a\u000ab\u0000\u007f"`,
		"\u00e9\U0001f600": `"\u00e9\ud83d\ude00"`,
		"\xff":             `"\ufffd"`,
		"12345678":         `"12345678"`,
		"123456789":        `"12345678..."`,
	} {
		if got := string(jsonline.AppendString(nil, text, 8)); got != want {
			t.Errorf("%q became %s, want %s", text, got, want)
		}
	}
}

// TestStringsComeBack checks that a JSON parser reads the text that was appended.
func TestStringsComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })).Draw(t, "text")
		line := jsonline.AppendString([]byte("x"), text, 1<<20)
		if bad := strings.IndexFunc(string(line), func(r rune) bool { return r < ' ' || r > '~' }); bad >= 0 {
			t.Fatalf("%q is not printable ASCII", line)
		}
		var back string
		if err := json.Unmarshal(line[1:], &back); err != nil {
			t.Fatal(err)
		}
		if utf8.ValidString(text) && back != text {
			t.Fatalf("%q came back as %q", text, back)
		}
	})
}
