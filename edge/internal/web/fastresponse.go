package web

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"time"

	"portolan.dev/services/backends"
)

// maxInformational is the number of 1xx responses before a response.
const maxInformational = 16

// receive passes the response on. It returns false if that failed. Then the client gets x.failed if nothing was
// sent yet; otherwise its connection ends.
func (x *fastExchange) receive() bool {
	for range maxInformational {
		if !x.readResponse() {
			return false
		}
		h := &x.s.res
		switch {
		case h.status == http.StatusSwitchingProtocols:
			x.failed = failResponse // requests on this path do not ask for another protocol
			return false
		case h.status >= 200:
			return x.pass()
		}
		x.s.out = append(appendHead(x.s.out[:0], x.s, nil), "\r\n"...)
		// Requests on this path do not ask for a 100, so it is dropped.
		if h.status != http.StatusContinue && !x.give(x.s.out) {
			return false
		}
		x.s.skipBack(h.size)
	}
	x.failed = failResponse
	return false
}

// readResponse reads the head of a response.
func (x *fastExchange) readResponse() bool {
	s := x.s
	s.res.reset(true)
	for {
		complete, err := s.res.parse(s.back)
		full := !complete && len(s.back) == len(s.backSpace)
		if err != nil || full && !s.growBack(x.c.set.config.MaxHeaderBytes) {
			x.failed = failResponse
			return false
		}
		if complete {
			x.answered = time.Now()
			x.record.BackendStatus = s.res.status
			return true
		}
		if err := x.readBack(); err != nil {
			x.failed = x.failureOfBackend(err)
			return false
		}
	}
}

// failureOfBackend returns the failure for an error of reading from the backend, which the client may have caused.
func (x *fastExchange) failureOfBackend(err error) failure {
	if x.upload != nil {
		if f, ok := x.upload.failure(); ok {
			return f
		}
	}
	if isTimeout(err) && backends.Left(x.c.conn.accepted.Raw) {
		return failLeft
	}
	return failureOf(err)
}

// give writes a part of the response to the client. It returns false if that failed.
func (x *fastExchange) give(b []byte) bool {
	err := x.c.write(b)
	if err != nil {
		x.failed = failureOfTaker(err)
	}
	return err == nil
}

// framing is the way in which the end of a response's body is found.
type framing int

const (
	framingNone framing = iota
	framingLength
	framingChunked
	framingClose
)

func (x *fastExchange) framing() framing {
	h := &x.s.res
	switch {
	case x.head, h.status == http.StatusNoContent, h.status == http.StatusNotModified, h.length == 0:
		return framingNone
	case h.chunked:
		return framingChunked
	case h.length > 0:
		return framingLength
	}
	return framingClose
}

// pass passes a final response on: its head, and its body.
func (x *fastExchange) pass() bool {
	s, h := x.s, &x.s.res
	how := x.framing()
	x.closes = x.closes || x.upload.pending() || x.c.server.fast.draining.Load()
	x.record.Status = h.status
	s.out = appendHead(s.out[:0], s, dateAt(x.answered))
	if x.closes {
		s.out = append(s.out, "Connection: close\r\n"...)
	}
	if how == framingChunked || how == framingClose {
		s.out = append(s.out, "Transfer-Encoding: chunked\r\n"...)
	}
	s.out = append(s.out, "\r\n"...)
	x.reusable = how != framingClose && !h.closes && h.minor > 0 && !x.upload.pending()
	x.started = true
	rest := s.back[h.size:]
	var ok bool
	switch how {
	case framingNone:
		ok = x.give(s.out)
		x.reusable = x.reusable && len(rest) == 0
	case framingLength:
		ok = x.passLength(rest, h.length)
	case framingChunked:
		ok = x.passChunked(rest)
	case framingClose:
		ok = x.passToEnd(rest)
	}
	x.reusable = x.reusable && ok
	return ok
}

// appendHead appends the head of a response without its end, and without the fields that are for the
// backend's connection. It adds a Date field with the given value if the response has none, unless the
// value is nil.
func appendHead(out []byte, s *scratch, date []byte) []byte {
	h, back := &s.res, s.back
	out = append(out, "HTTP/1.1 "...)
	out = strconv.AppendInt(out, int64(h.status), 10)
	out = append(out, ' ')
	out = append(out, h.reason.of(back)...)
	out = append(out, "\r\n"...)
	dated := date == nil
	for i := range h.fields {
		f := &h.fields[i]
		switch {
		case f.kind == fieldConnection, f.kind == fieldTransferEncoding, f.kind == fieldUpgrade, f.kind == fieldHop:
			continue
		case f.kind == fieldContentLength && (h.status < 200 || h.status == http.StatusNoContent):
			continue
		case h.tokens && namedByConnection(h, back, f.name.of(back)):
			continue
		}
		dated = dated || f.kind == fieldDate
		out = append(out, f.line.of(back)...)
	}
	if !dated {
		out = append(out, "Date: "...)
		out = append(out, date...)
		out = append(out, "\r\n"...)
	}
	return out
}

// namedByConnection reports whether a Connection field names a field.
func namedByConnection(h *head, b, name []byte) bool {
	for _, f := range h.fields {
		if f.kind != fieldConnection {
			continue
		}
		for token := range bytes.SplitSeq(f.value.of(b), []byte{','}) {
			if bytes.EqualFold(bytes.TrimSpace(token), name) {
				return true
			}
		}
	}
	return false
}

// spliceFrom is the size from which the kernel moves a body without copies to this process. splicePiece is the
// size of a piece, after which the bytes are counted.
const (
	spliceFrom  = 64 << 10
	splicePiece = 256 << 10
)

// passLength passes on a body of n bytes. rest has the bytes that have arrived.
func (x *fastExchange) passLength(rest []byte, n int64) bool {
	if int64(len(rest)) > n {
		rest, x.reusable = rest[:n], false // the backend sent more than its Content-Length
	}
	x.s.out = append(x.s.out, rest...)
	if !x.give(x.s.out) {
		return false
	}
	x.record.Sent += int64(len(rest))
	for left := n - int64(len(rest)); left > 0; {
		copied, ok := x.passPiece(left)
		left -= copied
		x.record.Sent += copied
		if !ok {
			return false
		}
	}
	return true
}

// passPiece passes on a part of a body with left remaining bytes. It returns false if that failed.
func (x *fastExchange) passPiece(left int64) (int64, bool) {
	if x.c.conn.tcp != nil && left >= spliceFrom {
		x.c.splicing.Store(true)
		defer x.c.splicing.Store(false)
		copied, err := io.CopyN(x.c.conn.tcp, x.link.TCPConn, min(left, splicePiece))
		if err != nil {
			x.failed = x.failureOfSplice(err)
		}
		return copied, err == nil
	}
	n, err := x.link.Read(x.s.backBuf[:min(left, readSize)])
	if n == 0 && err != nil {
		x.failed = x.failureOfBackend(err)
		return 0, false
	}
	return int64(n), x.give(x.s.backBuf[:n])
}

// failureOfSplice returns the failure for an error of a splice, which does not say which side has failed.
func (x *fastExchange) failureOfSplice(err error) failure {
	if isTimeout(err) && arrived(x.link.TCPConn) || backends.Gone(x.c.conn.tcp) {
		return failureOfTaker(err)
	}
	return x.failureOfBackend(err)
}

// passChunked passes on a chunked body as it is, and checks its framing.
func (x *fastExchange) passChunked(rest []byte) bool {
	var chunk chunkReader
	for {
		n, err := chunk.next(rest)
		if n < len(rest) {
			x.reusable = false // the backend sent more than the body
		}
		x.s.out = append(x.s.out, rest[:n]...)
		if !x.give(x.s.out) {
			return false
		}
		if err != nil {
			x.failed = failResponse
			return false
		}
		x.record.Sent = chunk.body
		if chunk.done() {
			return true
		}
		n, err = x.link.Read(x.s.backBuf[:])
		if n == 0 && err != nil {
			x.failed = x.failureOfBackend(err)
			return false
		}
		rest, x.s.out = x.s.backBuf[:n], x.s.out[:0]
	}
}

// passToEnd passes on a body that ends with the backend's connection, as chunks.
func (x *fastExchange) passToEnd(rest []byte) bool {
	for {
		if len(rest) > 0 {
			x.s.out = strconv.AppendInt(x.s.out, int64(len(rest)), 16)
			x.s.out = append(x.s.out, "\r\n"...)
			x.s.out = append(x.s.out, rest...)
			x.s.out = append(x.s.out, "\r\n"...)
		}
		if len(x.s.out) > 0 && !x.give(x.s.out) {
			return false
		}
		x.record.Sent += int64(len(rest))
		n, err := x.link.Read(x.s.backBuf[:])
		rest, x.s.out = x.s.backBuf[:n], x.s.out[:0]
		switch {
		case n > 0:
		case err == io.EOF:
			return x.give(append(x.s.out, "0\r\n\r\n"...))
		case err != nil:
			x.failed = x.failureOfBackend(err)
			return false
		}
	}
}
