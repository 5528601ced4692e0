package web

// bufferBody appends the part of the body that is in the scratch to the request for the backend, and
// checks it.
func (x *fastExchange) bufferBody() error {
	h := &x.s.req
	rest := x.s.in[h.size:]
	if !h.chunked && h.length <= int64(len(rest)) {
		x.buffered = int(max(h.length, 0))
		x.record.Received = int64(x.buffered)
		x.s.out = append(x.s.out, rest[:x.buffered]...)
		return nil
	}
	u := newUpload(h)
	var err error
	if x.s.out, x.buffered, err = u.take(x.s.out, rest); err != nil {
		return err
	}
	x.record.Received = u.total
	if !u.complete() {
		x.upload = u
	}
	return nil
}

// appendRequest appends the head of the request for the backend.
func (c *fastConn) appendRequest(out []byte, s *scratch) []byte {
	h, in := &s.req, s.in
	out = append(out, in[h.method.from:h.target.to]...)
	out = append(out, " HTTP/1.1\r\n"...)
	from, to := 0, 0 // lines that are copied together
	for i := range h.fields {
		f := &h.fields[i]
		switch f.kind {
		case fieldConnection, fieldForwardedFor, fieldForwardedProto, fieldForwardedPort:
		default:
			if f.line.from != to {
				out = append(out, in[from:to]...)
				from = f.line.from
			}
			to = f.line.to
		}
	}
	out = append(out, in[from:to]...)
	out = append(out, "X-Forwarded-For: "...)
	for i := range h.fields {
		if f := &h.fields[i]; f.kind == fieldForwardedFor {
			out = append(out, f.value.of(in)...)
			out = append(out, ", "...)
		}
	}
	out = append(out, c.client...)
	out = append(out, "\r\n"...)
	return append(out, c.forwarded...)
}

// writeBack writes to the backend.
func (x *fastExchange) writeBack(b []byte) error {
	_, err := x.link.Write(b)
	return err
}

// readBack reads more bytes of the backend into the scratch.
func (x *fastExchange) readBack() error {
	s := x.s
	n, err := x.link.Read(s.backSpace[len(s.back):])
	s.back = s.backSpace[:len(s.back)+n]
	if n > 0 {
		return nil
	}
	return err
}
