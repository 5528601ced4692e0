package web

import "bytes"

// refusal is the error for a message that is not valid.
type refusal struct {
	status int
	reason string
}

func (r *refusal) Error() string { return r.reason }

func bad(reason string) *refusal { return &refusal{400, reason} }

var (
	errHeadTooLarge  = &refusal{431, "the header fields are too large"}
	errBareLF        = bad("a line ends without CR")
	errFolded        = bad("a header field is folded")
	errFieldName     = bad("the name of a header field is invalid")
	errFieldValue    = bad("the value of a header field is invalid")
	errRequestLine   = bad("the request line is invalid")
	errStatusLine    = bad("the status line is invalid")
	errHost          = bad("a request has one Host field")
	errLength        = bad("Content-Length is invalid")
	errLengths       = bad("several Content-Length fields")
	errCoding        = bad("Transfer-Encoding is not chunked")
	errCodingVersion = bad("HTTP/1.0 has no Transfer-Encoding")
	errLengthCoding  = bad("Content-Length beside Transfer-Encoding")
)

// maxFields is the largest number of fields of a head. Browsers send about 20.
const maxFields = 128

// span is a part of a buffer.
type span struct{ from, to int }

func (s span) of(b []byte) []byte { return b[s.from:s.to] }

// field is a header field, with its value trimmed.
type field struct {
	line  span // with its end
	name  span
	value span
	kind  fieldKind
}

// head is the parsed head of a request or a response. Its spans refer to the buffer from which it was parsed.
type head struct {
	response bool

	size   int // bytes of the head, with the empty line; 0: it is not complete
	lines  int // number of lines before next
	next   int // beginning of the first line that is not parsed
	minor  byte
	method span // of a request
	target span
	status int // of a response
	reason span
	fields []field

	hosts   int
	agents  int   // User-Agent fields
	coded   bool  // there is a Transfer-Encoding field
	chunked bool  // it is chunked
	length  int64 // -1: there is no Content-Length
	unusual bool  // some field makes the fast path leave the request to the reference
	closes  bool  // Connection: close
	tokens  bool  // Connection names fields
}

func (h *head) reset(response bool) {
	*h = head{response: response, length: -1, fields: h.fields[:0]}
}

// parse parses the complete lines of b, and continues from an earlier call with the beginning of b. It
// reports whether the head is complete.
func (h *head) parse(b []byte) (bool, error) {
	for {
		i := bytes.IndexByte(b[h.next:], '\n')
		if i < 0 {
			return false, nil
		}
		line := span{h.next, h.next + i - 1}
		if i == 0 || b[line.to] != '\r' {
			return false, errBareLF
		}
		h.next += i + 1
		if line.from == line.to {
			if h.lines == 0 && h.next == 2 && !h.response {
				continue // RFC 9112, 2.2: an empty line before a request is skipped
			}
			if h.lines == 0 {
				return false, errRequestLine
			}
			h.size = h.next
			return true, h.check()
		}
		if err := h.parseLine(b, line); err != nil {
			return false, err
		}
		h.lines++
	}
}

func (h *head) parseLine(b []byte, line span) error {
	switch {
	case h.lines > 0:
		return h.parseField(b, line)
	case h.response:
		return h.parseStatusLine(b, line)
	}
	return h.parseRequestLine(b, line)
}

func (h *head) parseRequestLine(b []byte, line span) error {
	l := line.of(b)
	first, last := bytes.IndexByte(l, ' '), bytes.LastIndexByte(l, ' ')
	if first <= 0 || last <= first+1 {
		return errRequestLine
	}
	h.method = span{line.from, line.from + first}
	h.target = span{line.from + first + 1, line.from + last}
	if !isToken(h.method.of(b)) || !isTarget(h.target.of(b)) {
		return errRequestLine
	}
	return h.parseVersion(l[last+1:], errRequestLine)
}

func (h *head) parseVersion(v []byte, invalid error) error {
	if len(v) != 8 || string(v[:7]) != "HTTP/1." || v[7] < '0' || v[7] > '9' {
		return invalid
	}
	h.minor = v[7] - '0'
	return nil
}

func (h *head) parseStatusLine(b []byte, line span) error {
	l := line.of(b)
	if len(l) < 12 || l[8] != ' ' || (len(l) > 12 && l[12] != ' ') {
		return errStatusLine
	}
	for _, c := range l[9:12] {
		if c < '0' || c > '9' {
			return errStatusLine
		}
		h.status = h.status*10 + int(c-'0')
	}
	h.reason = span{min(line.from+13, line.to), line.to}
	if h.status < 100 || !isFieldValue(h.reason.of(b)) {
		return errStatusLine
	}
	return h.parseVersion(l[:8], errStatusLine)
}

func (h *head) parseField(b []byte, line span) error {
	l := line.of(b)
	if l[0] == ' ' || l[0] == '\t' {
		return errFolded
	}
	colon := bytes.IndexByte(l, ':')
	if colon <= 0 || !isToken(l[:colon]) {
		return errFieldName
	}
	value := span{line.from + colon + 1, line.to}
	for value.from < value.to && isBlank(b[value.from]) {
		value.from++
	}
	for value.from < value.to && isBlank(b[value.to-1]) {
		value.to--
	}
	if !isFieldValue(value.of(b)) {
		return errFieldValue
	}
	if len(h.fields) >= maxFields {
		return errHeadTooLarge
	}
	name := span{line.from, line.from + colon}
	f := field{line: span{line.from, line.to + 2}, name: name, value: value, kind: kindOf(name.of(b))}
	h.fields = append(h.fields, f)
	return h.note(b, f)
}

// note records the facts about the message that a field states.
func (h *head) note(b []byte, f field) error {
	value := f.value.of(b)
	switch f.kind {
	case fieldHost:
		h.hosts++
		h.unusual = h.unusual || len(value) == 0 || !all(value, classHost)
	case fieldUserAgent:
		h.agents++
		h.unusual = h.unusual || h.agents > 1 // the reference passes only one on
	case fieldContentLength:
		if h.length >= 0 {
			return errLengths
		}
		n, ok := parseLength(value)
		if !ok {
			return errLength
		}
		h.length = n
	case fieldTransferEncoding:
		if h.coded || !equalFold(value, "chunked") {
			return errCoding
		}
		h.coded, h.chunked = true, true
	case fieldConnection:
		h.noteConnection(value)
	case fieldHop, fieldUpgrade, fieldExpect, fieldTrailer:
		h.unusual = true
	}
	return nil
}

func (h *head) noteConnection(value []byte) {
	switch {
	case equalFold(value, "close"):
		h.closes = true
	case equalFold(value, "keep-alive"):
	default:
		for token := range bytes.SplitSeq(value, []byte{','}) {
			token = bytes.TrimSpace(token)
			h.closes = h.closes || equalFold(token, "close")
		}
		h.unusual, h.tokens = true, true
	}
}

// check checks the head as a whole.
func (h *head) check() error {
	switch {
	case h.coded && h.length >= 0:
		return errLengthCoding
	case h.coded && h.minor == 0:
		return errCodingVersion
	case h.response:
		return nil
	case h.hosts > 1, h.hosts == 0 && h.minor > 0:
		return errHost
	}
	return nil
}

// parseLength parses a Content-Length: digits only, and small enough to add something to it.
func parseLength(v []byte) (int64, bool) {
	if len(v) == 0 || len(v) > 18 {
		return 0, false
	}
	var n int64
	for _, c := range v {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, true
}
