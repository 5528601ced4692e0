package listen

import (
	"bufio"
	"bytes"
	"io"
	"testing"
	"testing/iotest"

	"github.com/pires/go-proxyproto"
)

// readFrom reads a PROXY header as a connection does. It returns the header, nil if it was refused, and
// the bytes after it.
func readFrom(in io.Reader) (*proxyproto.Header, []byte) {
	r := bufio.NewReaderSize(in, 16+int(proxyproto.MaxV2HeaderSize))
	if !waitForHeader(r) {
		return nil, nil
	}
	header, err := proxyproto.Read(r)
	if err != nil {
		return nil, nil
	}
	rest, _ := io.ReadAll(r) // a reader of bytes does not fail
	return header, rest
}

// FuzzHeader checks that a header in pieces of any size means the same as in one piece, and that the bytes after
// it stay.
func FuzzHeader(f *testing.F) {
	f.Add([]byte("PROXY TCP4 192.0.2.1 198.51.100.1 40000 443\r\nGET / HTTP/1.1\r\n"))
	f.Add([]byte("PROXY UNKNOWN\r\nx"))
	f.Add([]byte("\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c\xc0\x00\x02\x01\xc6\x33\x64\x01\x9c\x40\x01\xbbrest"))
	f.Fuzz(func(t *testing.T, data []byte) {
		header, rest := readFrom(bytes.NewReader(data))
		slow, slowRest := readFrom(iotest.OneByteReader(bytes.NewReader(data)))
		if (header == nil) != (slow == nil) || header != nil && !header.EqualsTo(slow) || !bytes.Equal(rest, slowRest) {
			t.Errorf("%q: %+v and %q at once, %+v and %q byte by byte", data, header, rest, slow, slowRest)
		}
		if header != nil && !bytes.HasSuffix(data, rest) {
			t.Errorf("%q: the rest is %q", data, rest)
		}
	})
}
