package changes

import (
	"fmt"
	"strings"

	"portolan.dev/services/object"
)

// DefaultPrefix is the prefix of all subjects if none is configured.
const DefaultPrefix = "portolan"

const headerEpoch = "Portolan-Epoch"

// headerEncoding has the version of the encoding of changes. A follower takes no change of another
// version from a message, because its bytes would differ from the registry's. During an upgrade of an
// installation, relays of two versions may run.
const (
	headerEncoding = "Portolan-Encoding"
	encoding       = "1"
)

// headerElided marks a change that is too large for a message. The message has no payload, and the
// follower reads the change from the registry's log.
const headerElided = "Portolan-Elided"

// headerNode is on the elided change of a pod, with the name of the pod's node, so that followers of
// other nodes need not read it.
const headerNode = "Portolan-Node"

// Subjects builds the names of the subjects and the stream of one installation.
type Subjects struct{ prefix string }

// NewSubjects checks the prefix. It consists of letters, digits and "-", in tokens separated by
// dots.
func NewSubjects(prefix string) (Subjects, error) {
	if prefix == "" {
		prefix = DefaultPrefix
	}
	for token := range strings.SplitSeq(prefix, ".") {
		if token == "" || encodeToken(token) != token {
			return Subjects{}, fmt.Errorf("prefix %q: only letters, digits and \"-\", in parts separated by dots", prefix)
		}
	}
	return Subjects{prefix: prefix}, nil
}

// stream returns the name of the stream. Prefixes contain no "_", so two prefixes never share a
// stream.
func (s Subjects) stream() string { return strings.ReplaceAll(s.prefix, ".", "_") + "_CHG" }

// Prefix returns the prefix of all subjects.
func (s Subjects) Prefix() string { return s.prefix }

// Changes returns the pattern of the subjects on which the relay publishes changes.
func (s Subjects) Changes() string { return s.prefix + ".chg.>" }

func (s Subjects) republished() string { return s.prefix + ".rep.chg.>" }

// Followed returns the pattern of the subjects that followers subscribe to.
func (s Subjects) Followed() string { return s.prefix + ".rep.>" }

// Head returns the subject of bookmarks.
func (s Subjects) Head() string { return s.prefix + ".rep.head" }

// Heartbeats returns the pattern of the subjects of all nodes' heartbeats.
func (s Subjects) Heartbeats() string { return s.prefix + ".hb.*" }

// Heartbeat returns the subject of a node's heartbeats.
func (s Subjects) Heartbeat(node string) string { return s.prefix + ".hb." + encodeToken(node) }

// StreamRequests returns the subjects of the JetStream requests that the relay sends, limited to its
// own stream.
func (s Subjects) StreamRequests() []string {
	stream := s.stream()
	return []string{
		"$JS.API.STREAM.INFO." + stream, "$JS.API.STREAM.CREATE." + stream, "$JS.API.STREAM.DELETE." + stream, "$JS.API.STREAM.PURGE." + stream,
		"$JS.API.STREAM.MSG.GET." + stream, "$JS.API.DIRECT.GET." + stream, "$JS.API.DIRECT.GET." + stream + ".>",
	}
}

func (s Subjects) change(key object.Key) string { return s.prefix + ".chg." + subjectOf(key) }

// subjectOf returns the subject of an object's changes without the prefix: kind, namespace and name.
func subjectOf(key object.Key) string {
	return encodeToken(key.Kind) + "." + encodeToken(key.Namespace) + "." + encodeToken(key.Name)
}

// split splits the subject of a republished change. It returns the kind of the change, the subject
// without the prefix as subjectOf does, and the subject on which the change was published.
func (s Subjects) split(subject string) (kind, object, published string, ok bool) {
	rest, ok := strings.CutPrefix(subject, s.prefix+".rep.")
	if !ok {
		return "", "", "", false
	}
	object, ok = strings.CutPrefix(rest, "chg.")
	if !ok {
		return "", "", "", false
	}
	kind, _, ok = strings.Cut(object, ".")
	return kind, object, s.prefix + "." + rest, ok
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

// Inbox returns the prefix of the subjects on which a daemon receives replies. Each daemon has its
// own prefix, so that a server can restrict the readers of each inbox.
func Inbox(prefix, daemon string) string { return "_INBOX_" + prefix + "_" + daemon }
