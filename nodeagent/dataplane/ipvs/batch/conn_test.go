package batch

import (
	"encoding/binary"
	"errors"
	"syscall"
	"testing"

	"github.com/moby/ipvs"
	"golang.org/x/sys/unix"
)

// kernelLink is a link to a kernel that answers as requested.
type kernelLink struct {
	sends   int
	got     []Command // of the messages that arrived
	refuse  map[int]unix.Errno
	lose    int // number of sends with lost answers
	mute    int // number of the send that is not answered; 0: none
	answers []syscall.NetlinkMessage
	lost    bool
	closed  bool
}

func (l *kernelLink) close() { l.closed = true }

func (l *kernelLink) receive() ([]syscall.NetlinkMessage, error) {
	switch {
	case l.lost:
		l.lost = false
		return nil, unix.ENOBUFS
	case len(l.answers) == 0:
		return nil, unix.EAGAIN
	}
	first := l.answers[:1]
	l.answers = l.answers[1:]
	return first, nil
}

func (l *kernelLink) send(b []byte) error {
	l.sends++
	if l.sends == l.mute {
		return nil
	}
	l.lost = l.lose > 0
	l.lose--
	messages, err := syscall.ParseNetlinkMessage(b)
	if err != nil {
		return err
	}
	for _, m := range messages {
		errno := l.refuse[len(l.got)]
		l.got = append(l.got, Command(m.Data[0]))
		if acknowledge := m.Header.Flags&unix.NLM_F_ACK != 0; errno != 0 || acknowledge {
			l.answer(m.Header.Seq, errno)
		}
	}
	if l.lost {
		l.answers = nil
	}
	return nil
}

func (l *kernelLink) answer(seq uint32, errno unix.Errno) {
	data := binary.NativeEndian.AppendUint32(nil, uint32(-int32(errno)))
	l.answers = append(l.answers, syscall.NetlinkMessage{Header: syscall.NlMsghdr{Type: unix.NLMSG_ERROR, Seq: seq}, Data: data})
}

// destinations returns n changes.
func destinations(n int) []Change {
	out := make([]Change, n)
	for i := range out {
		out[i] = Change{
			Command:     NewDestination,
			Service:     ipvs.Service{AddressFamily: unix.AF_INET, Protocol: unix.IPPROTO_TCP, Address: []byte{10, 96, 0, 1}, Port: 80},
			Destination: ipvs.Destination{Address: []byte{10, 64, byte(i >> 8), byte(i)}, Port: 8080, Weight: 1},
		}
	}
	return out
}

// TestErrorsBelongToTheirChanges checks that each change gets its own error, although only the last
// message of a send requests an answer.
func TestErrorsBelongToTheirChanges(t *testing.T) {
	refuse := map[int]unix.Errno{0: unix.EEXIST, 30: unix.ENOENT, 31: unix.ESRCH, Size - 1: unix.EPERM, 2*Size + 5: unix.ENOMEM}
	l := &kernelLink{refuse: refuse}
	l.answer(1000, unix.EIO) // to changes of an earlier time
	c := &Conn{link: l, seq: 1000}
	for i, err := range c.Do(destinations(3*Size - 10)) {
		var want error
		if errno := refuse[i]; errno != 0 {
			want = errno
		}
		if !errors.Is(err, want) {
			t.Errorf("change %d: %v, want %v", i, err, want)
		}
	}
	if l.sends != 3 || len(l.got) != 3*Size-10 {
		t.Errorf("%d sends of %d messages", l.sends, len(l.got))
	}
}

// TestLostAnswers checks that only the changes of one send are unknown if their answers were lost.
func TestLostAnswers(t *testing.T) {
	c := &Conn{link: &kernelLink{lose: 1}}
	for i, err := range c.Do(destinations(2 * Size)) {
		if lost := i < Size; lost != errors.Is(err, ErrLost) || !lost && err != nil {
			t.Errorf("change %d: %v", i, err)
		}
	}
}

// TestNothingIsSentAfterATimeout checks that the changes that the kernel has not answered and all
// later ones time out, and that the later ones are not sent.
func TestNothingIsSentAfterATimeout(t *testing.T) {
	l := &kernelLink{mute: 2}
	c := &Conn{link: l}
	for i, err := range c.Do(destinations(4 * Size)) {
		if late := i >= Size; late != errors.Is(err, ErrTimeout) || !late && err != nil {
			t.Errorf("change %d: %v", i, err)
		}
	}
	if l.sends != 2 {
		t.Errorf("%d sends", l.sends)
	}
	if c.Close(); !l.closed {
		t.Error("the link is open")
	}
}
