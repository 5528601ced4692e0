package web

import "sync"

// The sizes of the buffers of a request on the fast path. Larger heads go to the reference.
const (
	readSize  = 16 << 10
	writeSize = 2*readSize + 4<<10 // room for all bytes that were read, and for added fields
)

// scratch is the memory of a request on the fast path. A connection that waits for a request has none.
type scratch struct {
	in   []byte // read from the client
	back []byte // read from the backend
	out  []byte // to be written
	// backSpace is the memory of back: backBuf, or more for a large head.
	backSpace []byte
	req       head
	res       head

	inBuf   [readSize]byte
	backBuf [readSize]byte
	outBuf  [writeSize]byte
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

func getScratch() *scratch {
	s := scratches.Get().(*scratch)
	s.in, s.back, s.out = s.inBuf[:0], s.backBuf[:0], s.outBuf[:0]
	s.backSpace = s.backBuf[:]
	return s
}

func (s *scratch) put() { scratches.Put(s) }

// skip removes the first n bytes that were read from the client.
func (s *scratch) skip(n int) {
	s.in = s.inBuf[:copy(s.inBuf[:], s.in[n:])]
}

// growBack makes room for a response's head of size bytes. It returns false if there was that much room already.
func (s *scratch) growBack(size int) bool {
	if len(s.backSpace) >= size {
		return false
	}
	s.backSpace = make([]byte, size)
	s.back = s.backSpace[:copy(s.backSpace, s.back)]
	return true
}

// skipBack removes the first n bytes that were read from the backend.
func (s *scratch) skipBack(n int) {
	s.back = s.backSpace[:copy(s.backSpace, s.back[n:])]
}
