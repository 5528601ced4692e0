package changes

import (
	"fmt"
	"strings"

	"portolan.dev/services/object"
)

// DefaultPrefix is the prefix of all subjects if none is configured.
const DefaultPrefix = "portolan"

const headerEpoch = "Portolan-Epoch"

// headerElided marks a change that is too large for a message. The message has no payload, and the
// follower reads the change from the registry's log.
const headerElided = "Portolan-Elided"

// subjects builds the names of the subjects and the stream of one installation.
type subjects struct{ prefix string }

// newSubjects checks the prefix. It consists of letters, digits and "-", in tokens separated by
// dots.
func newSubjects(prefix string) (subjects, error) {
	if prefix == "" {
		prefix = DefaultPrefix
	}
	for token := range strings.SplitSeq(prefix, ".") {
		if token == "" || encodeToken(token) != token {
			return subjects{}, fmt.Errorf("prefix %q: only letters, digits and \"-\", in parts separated by dots", prefix)
		}
	}
	return subjects{prefix: prefix}, nil
}

// stream returns the name of the stream. Prefixes contain no "_", so two prefixes never share a
// stream.
func (s subjects) stream() string { return strings.ReplaceAll(s.prefix, ".", "_") + "_CHG" }

func (s subjects) changes() string     { return s.prefix + ".chg.>" }
func (s subjects) republished() string { return s.prefix + ".rep.chg.>" }
func (s subjects) followed() string    { return s.prefix + ".rep.>" }
func (s subjects) head() string        { return s.prefix + ".rep.head" }
func (s subjects) heartbeats() string  { return s.prefix + ".hb.*" }

func (s subjects) heartbeat(node string) string { return s.prefix + ".hb." + encodeToken(node) }

func (s subjects) change(key object.Key) string {
	return s.prefix + ".chg." + encodeToken(key.Kind) + "." + encodeToken(key.Namespace) + "." + encodeToken(key.Name)
}

// kindOf splits the subject of a republished change. It returns the kind of the change and the
// subject on which the change was published.
func (s subjects) kindOf(subject string) (kind, published string, ok bool) {
	rest, ok := strings.CutPrefix(subject, s.prefix+".rep.")
	if !ok {
		return "", "", false
	}
	tokens, ok := strings.CutPrefix(rest, "chg.")
	if !ok {
		return "", "", false
	}
	kind, _, ok = strings.Cut(tokens, ".")
	return kind, s.prefix + "." + rest, ok
}

const hexDigits = "0123456789ABCDEF"

// encodeToken encodes any string as one subject token. Letters, digits and "-" are kept; other
// bytes are written as =XX, because names contain dots, which separate tokens. The empty string is
// encoded as "_".
func encodeToken(s string) string {
	if s == "" {
		return "_"
	}
	var b strings.Builder
	b.Grow(len(s))
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-':
			b.WriteByte(c)
		default:
			b.WriteByte('=')
			b.WriteByte(hexDigits[c>>4])
			b.WriteByte(hexDigits[c&0xf])
		}
	}
	return b.String()
}
