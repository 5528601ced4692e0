package broker

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// stream is the only stream of the server.
type stream struct {
	config   jetstream.StreamConfig
	asked    json.RawMessage // the configuration as it was asked for
	messages []message       // first, first+1, …
	first    uint64
	size     int64 // bytes of the messages
}

// keep adds a message, and removes the oldest ones beyond the limits of the configuration.
func (s *stream) keep(m message) {
	s.messages = append(s.messages, m)
	s.size += m.size()
	for c := s.config; c.MaxMsgs > 0 && int64(len(s.messages)) > c.MaxMsgs || c.MaxBytes > 0 && s.size > c.MaxBytes && len(s.messages) > 1; {
		s.drop(1)
	}
}

// drop removes the oldest n messages.
func (s *stream) drop(n int) {
	for i := range s.messages[:n] {
		s.size -= s.messages[i].size()
		s.messages[i] = message{} // so that its memory is freed
	}
	s.messages = s.messages[n:]
	s.first += uint64(n)
}

func (s *stream) accepts(subject string) bool {
	return s != nil && matches(s.config.Subjects[0], subject)
}

func (s *stream) last() uint64 { return s.first + uint64(len(s.messages)) - 1 }

// Stored returns the data of the messages of the stream, and the sequence of the first one.
func (b *Broker) Stored() (first uint64, data [][]byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stream == nil {
		return 0, nil
	}
	for _, m := range b.stream.messages {
		data = append(data, m.data)
	}
	return b.stream.first, data
}

// Codes of the errors that the change stream distinguishes.
const (
	noStream         = 10059
	wrongSequence    = 10071
	malformedRequest = 10025
	notSupported     = 10039
	otherStream      = 10058
)

// apiError is an error of JetStream as it is sent.
type apiError struct {
	Code        int    `json:"code"`
	ErrCode     int    `json:"err_code"`
	Description string `json:"description"`
}

// reply sends a value as JSON to the sender of a request, if the sender asks for a reply.
func (b *Broker) reply(m message, v any) {
	if m.reply == "" {
		return
	}
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // the values are ours
	}
	b.route(message{subject: m.reply, data: data})
}

func (b *Broker) refuse(m message, code, errCode int, text string) {
	b.reply(m, map[string]any{"error": apiError{code, errCode, text}})
}

func (b *Broker) malformed(m message) { b.refuse(m, 400, malformedRequest, "invalid JSON") }

// answer answers a request about the stream. The caller holds mu.
func (b *Broker) answer(m message, api string) {
	verb := api[:max(strings.LastIndexByte(api, '.'), 0)]
	if b.stream == nil && verb != "STREAM.CREATE" {
		b.refuse(m, 404, noStream, "stream not found")
		return
	}
	switch verb {
	case "STREAM.CREATE":
		b.create(m)
	case "STREAM.INFO":
		b.reply(m, b.info())
	case "STREAM.DELETE":
		b.stream = nil
		b.reply(m, map[string]any{"success": true})
	case "STREAM.PURGE":
		b.purge(m)
	case "DIRECT.GET":
		b.get(m)
	default:
		b.refuse(m, 503, notSupported, "this broker knows no "+verb)
	}
}

func (b *Broker) info() map[string]any {
	state := map[string]any{
		"messages": len(b.stream.messages), "bytes": 0, "first_seq": b.stream.first, "last_seq": b.stream.last(), "consumer_count": 0,
	}
	return map[string]any{"config": b.stream.asked, "created": time.Now(), "state": state}
}

func (b *Broker) create(m message) {
	if b.stream != nil {
		b.refuse(m, 400, otherStream, "stream name already in use with a different configuration")
		return
	}
	s := &stream{asked: m.data}
	if err := json.Unmarshal(m.data, &s.config); err != nil || len(s.config.Subjects) != 1 || s.config.RePublish == nil {
		b.malformed(m)
		return
	}
	if most := b.options.MaxMsgs; most > 0 && (s.config.MaxMsgs <= 0 || s.config.MaxMsgs > most) {
		s.config.MaxMsgs = most
	}
	s.first = max(s.config.FirstSeq, 1)
	b.stream = s
	b.reply(m, b.info())
}

// purge removes the messages before a sequence.
func (b *Broker) purge(m message) {
	var request struct {
		Seq uint64 `json:"seq"`
	}
	if err := json.Unmarshal(m.data, &request); err != nil {
		b.malformed(m)
		return
	}
	if s := b.stream; request.Seq > s.first {
		s.drop(int(min(request.Seq-s.first, uint64(len(s.messages)))))
		s.first = request.Seq
	}
	b.reply(m, map[string]any{"success": true, "purged": 0})
}

// get returns a stored message.
func (b *Broker) get(m message) {
	var request struct {
		Seq uint64 `json:"seq"`
	}
	if err := json.Unmarshal(m.data, &request); err != nil {
		b.malformed(m)
		return
	}
	s := b.stream
	if request.Seq < s.first || request.Seq > s.last() {
		b.route(message{subject: m.reply, header: []byte("NATS/1.0 404 Message Not Found\r\n\r\n")})
		return
	}
	stored := s.messages[request.Seq-s.first]
	b.route(message{subject: m.reply, header: b.stamped(stored, request.Seq), data: stored.data})
}

// stamped returns the headers of a stored message, with the headers for its stream and sequence.
func (b *Broker) stamped(m message, sequence uint64) []byte {
	header := "NATS/1.0\r\n"
	if len(m.header) > 0 {
		header = strings.TrimSuffix(string(m.header), "\r\n")
	}
	return fmt.Appendf(nil, "%sNats-Stream: %s\r\nNats-Subject: %s\r\nNats-Sequence: %d\r\nNats-Time-Stamp: %s\r\n\r\n",
		header, b.stream.config.Name, m.subject, sequence, time.Now().UTC().Format(time.RFC3339Nano))
}

// store takes a message into the stream if it follows the message that its publisher expects,
// acknowledges it, and republishes it.
func (b *Broker) store(m message) {
	s := b.stream
	if want, ok := expected(m.header); ok && want != s.last() {
		b.refuse(m, 400, wrongSequence, fmt.Sprintf("wrong last sequence: %d", s.last()))
		return
	}
	s.keep(m)
	b.reply(m, map[string]any{"stream": s.config.Name, "seq": s.last()})
	to := strings.TrimSuffix(s.config.RePublish.Destination, ">") + strings.TrimPrefix(m.subject, strings.TrimSuffix(s.config.Subjects[0], ">"))
	b.route(message{subject: to, header: b.stamped(m, s.last()), data: m.data})
}

// expected returns the sequence that a message must follow.
func expected(header []byte) (uint64, bool) {
	for line := range strings.SplitSeq(string(header), "\r\n") {
		if name, value, _ := strings.Cut(line, ":"); strings.EqualFold(name, jetstream.ExpectedLastSeqHeader) {
			sequence, err := strconv.ParseUint(strings.TrimSpace(value), 10, 64)
			return sequence, err == nil
		}
	}
	return 0, false
}
