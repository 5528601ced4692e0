package web

// Limits of the framing around chunks. Without them a client could send many bytes without a body.
const (
	maxChunkLine   = 256      // bytes of a line with the size and extensions of a chunk
	maxExtensions  = 16 << 10 // bytes of extensions of a body
	maxTrailerSize = 16 << 10
)

var (
	errChunkLine = bad("a chunk is invalid")
	errTrailer   = bad("a trailer is invalid")
)

// chunkState is the position of the next byte in a chunked body.
type chunkState uint8

const (
	chunkSize      chunkState = iota // in the digits of the size
	chunkBlank                       // in blanks behind the size, which some servers write
	chunkExtension                   // in extensions
	chunkLineEnd                     // before the LF of a size line
	chunkData
	chunkDataCR
	chunkDataLF
	chunkTrailerStart // at the beginning of a trailer line
	chunkTrailerName
	chunkTrailerValue
	chunkTrailerLF
	chunkEndLF // before the last LF
	chunkEnd
)

// chunkReader follows the framing of a chunked body and checks it strictly.
type chunkReader struct {
	state      chunkState
	digits     int
	line       int   // bytes of the current size line
	extensions int   // bytes of all extensions
	trailer    int   // bytes of the trailer section
	left       int64 // remaining bytes of the chunk
	body       int64 // bytes of the body so far
	pause      bool  // next stops before the trailer section
}

// next consumes the part of b that belongs to the body. It returns its length.
func (r *chunkReader) next(b []byte) (int, error) {
	for i := 0; i < len(b); {
		switch r.state {
		case chunkEnd:
			return i, nil
		case chunkTrailerStart:
			if r.pause {
				return i, nil
			}
		case chunkData:
			n := min(int64(len(b)-i), r.left)
			r.left -= n
			r.body += n
			i += int(n)
			if r.left == 0 {
				r.state = chunkDataCR
			}
			continue
		}
		if err := r.step(b[i]); err != nil {
			return i, err
		}
		i++
	}
	return len(b), nil
}

// paused reports whether all chunks are consumed and the reader has stopped before the trailer section.
func (r *chunkReader) paused() bool { return r.pause && r.state == chunkTrailerStart }

func (r *chunkReader) done() bool { return r.state == chunkEnd }

// step consumes a byte that is not data.
func (r *chunkReader) step(c byte) error {
	switch r.state {
	case chunkSize, chunkBlank, chunkExtension, chunkLineEnd:
		return r.stepSize(c)
	case chunkDataCR:
		return r.expect(c, '\r', chunkDataLF, errChunkLine)
	case chunkDataLF:
		r.digits, r.line = 0, 0
		return r.expect(c, '\n', chunkSize, errChunkLine)
	}
	return r.stepTrailer(c)
}

func (r *chunkReader) expect(c, want byte, next chunkState, otherwise error) error {
	if c != want {
		return otherwise
	}
	r.state = next
	return nil
}

func (r *chunkReader) stepSize(c byte) error {
	if r.line++; r.line > maxChunkLine {
		return errChunkLine
	}
	switch {
	case r.state == chunkLineEnd:
		if c != '\n' {
			return errChunkLine
		}
		r.state = chunkData
		if r.left == 0 {
			r.state = chunkTrailerStart
		}
	case c == '\r' && r.digits > 0:
		r.state = chunkLineEnd
	case r.state == chunkExtension:
		if r.extensions++; r.extensions > maxExtensions || classes[c]&classValue == 0 {
			return errChunkLine
		}
	case isBlank(c) && r.digits > 0:
		r.state = chunkBlank
	case r.state == chunkBlank:
		return errChunkLine
	case classes[c]&classHex != 0 && r.digits < 15:
		r.digits++
		r.left = r.left<<4 | int64(unhex(c))
	case c == ';' && r.digits > 0:
		r.state = chunkExtension
		r.extensions++
	default:
		return errChunkLine
	}
	return nil
}

func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c&^0x20 - 'A' + 10
}

func (r *chunkReader) stepTrailer(c byte) error {
	if r.trailer++; r.trailer > maxTrailerSize {
		return errTrailer
	}
	switch r.state {
	case chunkTrailerStart:
		if c == '\r' {
			r.state = chunkEndLF
			return nil
		}
		if classes[c]&classToken == 0 {
			return errTrailer
		}
		r.state = chunkTrailerName
	case chunkTrailerName:
		if c == ':' {
			r.state = chunkTrailerValue
		} else if classes[c]&classToken == 0 {
			return errTrailer
		}
	case chunkTrailerValue:
		if c == '\r' {
			r.state = chunkTrailerLF
		} else if classes[c]&classValue == 0 {
			return errTrailer
		}
	case chunkTrailerLF:
		return r.expect(c, '\n', chunkTrailerStart, errTrailer)
	case chunkEndLF:
		return r.expect(c, '\n', chunkEnd, errTrailer)
	}
	return nil
}
