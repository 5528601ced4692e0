package config

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

var (
	passwordPair = regexp.MustCompile(`(?i)\b(password|token|secret)=('[^']*'|[^\s&]+)`)
	urlScheme    = regexp.MustCompile(`[a-zA-Z][a-zA-Z0-9+.-]*://`)
)

// mask replaces passwords, as in url.URL.Redacted.
const mask = "xxxxx"

// Redact masks passwords in URLs, also in several that are joined by commas, and in key=value
// connection strings. It reports whether it masked any. It also masks passwords in text that is no
// valid URL, because such text is printed in errors.
func Redact(text string) (string, bool) {
	starts := urlScheme.FindAllStringIndex(text, -1)
	var masked strings.Builder
	done := 0
	for i, at := range starts {
		end := len(text)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		masked.WriteString(text[done:at[1]])
		masked.WriteString(redactAuthority(text[at[0]:end], at[1]-at[0]))
		done = end
	}
	masked.WriteString(text[done:])
	result := passwordPair.ReplaceAllString(masked.String(), "$1="+mask)
	return result, result != text
}

// redactAuthority returns the part of a URL after its scheme, which has the given length, without
// the password. If the URL cannot be parsed, the password is everything between the first colon and
// the last @.
func redactAuthority(text string, scheme int) string {
	rest := text[scheme:]
	if u, err := url.Parse(strings.TrimRight(text, ",")); err == nil && u.User == nil {
		return rest
	}
	at := strings.LastIndexByte(rest, '@')
	colon := strings.IndexByte(rest, ':')
	if colon < 0 || at < colon {
		return rest
	}
	return rest[:colon+1] + mask + rest[at:]
}

// checkArgument returns an error if the text of a flag has a password, because every user of the
// machine can read the arguments of every process.
func checkArgument(f *field, text string) error {
	if _, has := Redact(text); !has {
		return nil
	}
	return fmt.Errorf("%s (flag -%s): has a password, and every user of this machine can read the command lines of all processes: "+
		"give it by the environment variable %s, or in a file", f.name, f.name, f.env)
}
