package spec

import "strings"

// The functions in this file return the violated rule, or "" if the word is correct.

const (
	maxLabel     = 63
	maxSubdomain = 253
	maxPortName  = 15
)

const (
	labelRule     = "must be at most 63 lower case letters, digits or '-', and begin and end with a letter or digit (such as \"my-name\" or \"123-abc\")"
	rfc1035Rule   = "must be an RFC 1035 label: at most 63 lower case letters, digits or '-', beginning with a letter and ending with a letter or digit (such as \"my-name\")"
	subdomainRule = "must be a DNS name of at most 253 lower case letters, digits, '-' or '.', whose parts begin and end with a letter or digit (such as \"example.com\")"
	qualifiedRule = "must be a name of at most 63 letters, digits, '-', '_' or '.' that begins and ends with a letter or digit, after an optional DNS name and '/' (such as \"example.com/my-name\")"
	valueRule     = "must be empty or at most 63 letters, digits, '-', '_' or '.', and begin and end with a letter or digit"
	portNameRule  = "must be at most 15 lower case letters, digits or single '-' between them, with a letter among them (such as \"http-alt\")"
)

func lower(b byte) bool { return b >= 'a' && b <= 'z' }
func upper(b byte) bool { return b >= 'A' && b <= 'Z' }
func digit(b byte) bool { return b >= '0' && b <= '9' }

// DNSLabel checks an RFC 1123 label, the syntax of names of ports and namespaces.
func DNSLabel(s string) string {
	if len(s) > maxLabel || !isLabel(s) {
		return labelRule
	}
	return ""
}

// LabelFrom returns an RFC 1123 label that resembles a text, such as a program's name. It replaces
// characters that a label may not have by '-', and cuts the label at longest bytes. It returns "" if the
// text has no character of labels.
func LabelFrom(text string, longest int) string {
	label := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(text))
	return strings.Trim(label[:min(len(label), longest)], "-")
}

// RFC1035Label checks a label that begins with a letter, the syntax of names of services.
func RFC1035Label(s string) string {
	if len(s) > maxLabel || !isLabel(s) || !lower(s[0]) {
		return rfc1035Rule
	}
	return ""
}

// DNSSubdomain checks a DNS name of one or more labels, the syntax of names of most kinds.
func DNSSubdomain(s string) string {
	if len(s) > maxSubdomain {
		return subdomainRule
	}
	for label := range strings.SplitSeq(s, ".") {
		if !isLabel(label) {
			return subdomainRule
		}
	}
	return ""
}

// QualifiedName checks a name with an optional DNS prefix, the syntax of keys of labels and
// annotations.
func QualifiedName(s string) string {
	prefix, name, prefixed := strings.Cut(s, "/")
	if !prefixed {
		name = prefix
	} else if DNSSubdomain(prefix) != "" {
		return qualifiedRule
	}
	if name == "" || LabelValue(name) != "" {
		return qualifiedRule
	}
	return ""
}

// LabelValue checks the value of a label.
func LabelValue(s string) string {
	if len(s) > maxLabel {
		return valueRule
	}
	for i := range len(s) {
		inner := i > 0 && i < len(s)-1
		switch b := s[i]; {
		case lower(b), upper(b), digit(b):
		case inner && (b == '-' || b == '_' || b == '.'):
		default:
			return valueRule
		}
	}
	return ""
}

// PortName checks an IANA service name, the syntax of names of pods' ports.
func PortName(s string) string {
	letter := false
	for i := range len(s) {
		inner := i > 0 && i < len(s)-1
		switch b := s[i]; {
		case lower(b):
			letter = true
		case digit(b):
		case inner && b == '-' && s[i-1] != '-':
		default:
			return portNameRule
		}
	}
	if !letter || len(s) > maxPortName {
		return portNameRule
	}
	return ""
}

// isLabel reports whether s is a label of any length. Its callers check the length, because
// Kubernetes does not limit the labels within a DNS name.
func isLabel(s string) bool {
	for i := range len(s) {
		inner := i > 0 && i < len(s)-1
		if b := s[i]; !lower(b) && !digit(b) && (!inner || b != '-') {
			return false
		}
	}
	return s != ""
}

func checkPort(c *checks, field string, port int32) {
	if port < 1 || port > 65535 {
		c.invalid(field, port, "must be between 1 and 65535")
	}
}
