package web

// fieldKind is the kind of a header field for the proxy.
type fieldKind uint8

const (
	fieldOther fieldKind = iota
	fieldHost
	fieldContentLength
	fieldTransferEncoding
	fieldConnection
	fieldUpgrade
	fieldExpect
	fieldTrailer
	fieldHop // other fields that are for one connection
	fieldForwardedFor
	fieldForwardedProto
	fieldForwardedPort
	fieldUserAgent
	fieldDate
)

// knownFields has the fields of each kind, in lower case.
var knownFields = []struct {
	name string
	kind fieldKind
}{
	{"te", fieldHop},
	{"host", fieldHost},
	{"date", fieldDate},
	{"expect", fieldExpect},
	{"upgrade", fieldUpgrade},
	{"trailer", fieldTrailer},
	{"connection", fieldConnection},
	{"keep-alive", fieldHop},
	{"user-agent", fieldUserAgent},
	{"content-length", fieldContentLength},
	{"x-forwarded-for", fieldForwardedFor},
	{"x-forwarded-port", fieldForwardedPort},
	{"proxy-connection", fieldHop},
	{"transfer-encoding", fieldTransferEncoding},
	{"x-forwarded-proto", fieldForwardedProto},
	{"proxy-authenticate", fieldHop},
	{"proxy-authorization", fieldHop},
}

// byLength has the indices of knownFields by the length of the name.
var byLength = func() (out [20][]int) {
	for i, f := range knownFields {
		out[len(f.name)] = append(out[len(f.name)], i)
	}
	return out
}()

func kindOf(name []byte) fieldKind {
	if len(name) >= len(byLength) {
		return fieldOther
	}
	for _, i := range byLength[len(name)] {
		if equalFold(name, knownFields[i].name) {
			return knownFields[i].kind
		}
	}
	return fieldOther
}

// equalFold reports whether b is s, which is in lower case, if case does not matter.
func equalFold(b []byte, s string) bool {
	if len(b) != len(s) {
		return false
	}
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		if c != s[i] {
			return false
		}
	}
	return true
}

// The classes of bytes of RFC 9110 and 9112.
const (
	classToken  = 1 << iota // of methods and names
	classValue              // of values: no controls but tabs
	classTarget             // of request targets: visible, or not ASCII
	classPlain              // of targets that both paths write in the same way
	classHost               // of hosts, as in net/http
	classHex
)

var classes = func() (out [256]byte) {
	for c := range 256 {
		alnum := c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		visible := c > ' ' && c < 0x7f
		set := func(class byte, in bool) {
			if in {
				out[c] |= class
			}
		}
		set(classToken, alnum || c < 0x7f && contains("!#$%&'*+-.^_`|~", c))
		set(classValue, c == '\t' || c >= ' ' && c != 0x7f)
		set(classTarget, visible || c >= 0x80)
		set(classPlain, visible && !contains("\"<>\\^`{|}#", c))
		set(classHost, alnum || c < 0x7f && contains("!$%&()*+,-.:;='[]_~", c))
		set(classHex, c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F')
	}
	return out
}()

func contains(s string, c int) bool {
	for i := range len(s) {
		if int(s[i]) == c {
			return true
		}
	}
	return false
}

func all(b []byte, class byte) bool {
	for _, c := range b {
		if classes[c]&class == 0 {
			return false
		}
	}
	return true
}

func isToken(b []byte) bool      { return len(b) > 0 && all(b, classToken) }
func isFieldValue(b []byte) bool { return all(b, classValue) }
func isTarget(b []byte) bool     { return len(b) > 0 && all(b, classTarget) }
func isBlank(c byte) bool        { return c == ' ' || c == '\t' }

// isPlainTarget reports whether a target is a path, with or without a query, that needs no escaping.
func isPlainTarget(b []byte) bool {
	if b[0] != '/' || len(b) > 1 && b[1] == '/' || !all(b, classPlain) {
		return false
	}
	for i, c := range b {
		if c == '%' && (len(b) < i+3 || classes[b[i+1]]&classes[b[i+2]]&classHex == 0) {
			return false
		}
	}
	return true
}
