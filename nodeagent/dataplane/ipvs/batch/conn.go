package batch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/moby/ipvs"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

const (
	// Size is the number of changes in one send. It achieves most of the gain, and the answers still
	// fit into the socket's buffer.
	Size = 64

	receiveBuffer = 4 << 20
	headerSize    = unix.GENL_HDRLEN // of a message's data
)

var (
	// ErrTimeout is the error of changes that the kernel has not answered in time. It may carry them
	// out later.
	ErrTimeout = errors.New("the kernel does not answer on its IPVS socket")
	// ErrLost is the error of changes with unknown results, because answers were lost.
	ErrLost = errors.New("the kernel's answer was lost")
)

// Conn is a connection to the kernel's IPVS. It is not safe for concurrent use.
type Conn struct {
	link   link
	family uint16
	seq    uint32
	out    encoder
}

// link carries netlink messages to the kernel and its answers back.
type link interface {
	send(messages []byte) error
	// receive returns EAGAIN if no answer arrives in time, and ENOBUFS if answers were lost. The messages are
	// valid until the next call.
	receive() ([]syscall.NetlinkMessage, error)
	close()
}

// Open connects to the IPVS of the network namespace at a path such as /run/netns/x, or of the
// process if the path is empty. Timeout is the longest time that the kernel may take for an answer.
func Open(path string, timeout time.Duration) (*Conn, error) {
	family, err := netlink.GenlFamilyGet("IPVS") // the same in all namespaces
	if err != nil {
		return nil, fmt.Errorf("the kernel has no IPVS (module ip_vs): %w", err)
	}
	link, err := dial(path, timeout)
	if err != nil {
		return nil, fmt.Errorf("IPVS socket: %w", err)
	}
	return &Conn{link: link, family: family.ID}, nil
}

// Close closes the socket.
func (c *Conn) Close() { c.link.close() }

// Do carries out changes in order. It returns the error of each: an errno of the kernel, ErrLost or
// ErrTimeout. After ErrTimeout no more changes are sent, and the connection must be closed.
func (c *Conn) Do(changes []Change) []error {
	errs := make([]error, len(changes))
	for from := 0; from < len(changes); from += Size {
		to := min(from+Size, len(changes))
		err := c.exchange(changes[from:to], errs[from:to])
		if errors.Is(err, ErrTimeout) {
			fill(errs[from:], err)
			break
		}
		fill(errs[from:to], err)
	}
	return errs
}

// fill sets an error, or nil, for the changes without one.
func fill(errs []error, err error) {
	for i := range errs {
		if errs[i] == nil {
			errs[i] = err
		}
	}
}

// exchange sends changes together and collects their errors until the last one is answered.
func (c *Conn) exchange(changes []Change, errs []error) error {
	first := c.seq + 1
	c.seq += uint32(len(changes))
	c.out.b = c.out.b[:0]
	for i := range changes {
		flags := uint16(unix.NLM_F_REQUEST)
		if i == len(changes)-1 {
			flags |= unix.NLM_F_ACK
		}
		c.out.change(&changes[i], c.family, flags, first+uint32(i))
	}
	if err := c.link.send(c.out.b); err != nil {
		return os.NewSyscallError("sendto", err)
	}
	return c.each(func(m *syscall.NetlinkMessage) (last bool, _ error) {
		i := int(m.Header.Seq - first)
		if i < 0 || i >= len(errs) || m.Header.Type != unix.NLMSG_ERROR { // an answer to earlier changes
			return false, nil
		}
		errs[i] = errorOf(m)
		return i == len(errs)-1, nil
	})
}

// dump requests a list, and passes the attributes of each answer to fn. The service may be nil.
func (c *Conn) dump(command Command, of *ipvs.Service, fn func(answer []byte) error) error {
	c.seq++
	want := c.seq
	c.out.b = c.out.b[:0]
	start := c.out.begin(uint8(command), c.family, unix.NLM_F_REQUEST|unix.NLM_F_DUMP, want)
	if of != nil {
		service := c.out.open(attrService | unix.NLA_F_NESTED)
		c.out.identity(of)
		c.out.close(service)
	}
	c.out.end(start)
	if err := c.link.send(c.out.b); err != nil {
		return os.NewSyscallError("sendto", err)
	}
	return c.each(func(m *syscall.NetlinkMessage) (last bool, err error) {
		switch {
		case m.Header.Seq != want:
			return false, nil
		case m.Header.Type == unix.NLMSG_DONE, m.Header.Type == unix.NLMSG_ERROR:
			return true, errorOf(m)
		case len(m.Data) < headerSize:
			return true, errors.New("netlink message without a header")
		}
		return false, fn(m.Data[headerSize:])
	})
}

// each passes answers to fn until fn returns true or an error.
func (c *Conn) each(fn func(m *syscall.NetlinkMessage) (last bool, err error)) error {
	for {
		messages, err := c.link.receive()
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			return ErrTimeout
		case errors.Is(err, unix.ENOBUFS):
			return ErrLost
		case err != nil:
			return os.NewSyscallError("recvfrom", err)
		}
		for i := range messages {
			if last, err := fn(&messages[i]); last || err != nil {
				return err
			}
		}
	}
}

// errorOf returns the error that the kernel reports in a message, or nil.
func errorOf(m *syscall.NetlinkMessage) error {
	if len(m.Data) < 4 {
		return ErrLost
	}
	if code := int32(binary.NativeEndian.Uint32(m.Data)); code != 0 {
		return unix.Errno(-code)
	}
	return nil
}

// netlinkLink is a netlink socket.
type netlinkLink struct {
	*nl.NetlinkSocket
	buffer []byte // of receive
}

func dial(path string, timeout time.Duration) (link, error) {
	ns := netns.None()
	if path != "" {
		var err error
		if ns, err = netns.GetFromPath(path); err != nil {
			return nil, fmt.Errorf("network namespace %s: %w", path, err)
		}
		defer ns.Close()
	}
	s, err := nl.GetNetlinkSocketAt(ns, netns.None(), unix.NETLINK_GENERIC)
	if err != nil {
		return nil, err
	}
	limit := unix.NsecToTimeval(timeout.Nanoseconds())
	if err := errors.Join(s.SetSendTimeout(&limit), s.SetReceiveTimeout(&limit)); err != nil {
		s.Close()
		return nil, err
	}
	// Both options only make lost answers less likely.
	s.SetReceiveBufferSize(receiveBuffer, true)                              //nolint:errcheck // see above
	unix.SetsockoptInt(s.GetFd(), unix.SOL_NETLINK, unix.NETLINK_CAP_ACK, 1) //nolint:errcheck // see above
	return &netlinkLink{s, make([]byte, nl.RECEIVE_BUFFER_SIZE)}, nil
}

func (l *netlinkLink) send(messages []byte) error {
	return unix.Sendto(l.GetFd(), messages, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
}

// receive takes an answer that has arrived, as nearly all have when the request has been sent, into memory that
// is used again. The socket's own Receive waits, and takes new memory of 64 KiB for each answer, which is half
// of the time of a read.
func (l *netlinkLink) receive() ([]syscall.NetlinkMessage, error) {
	n, from, err := unix.Recvfrom(l.GetFd(), l.buffer, unix.MSG_DONTWAIT)
	if errors.Is(err, unix.EAGAIN) {
		messages, _, err := l.Receive()
		return messages, err
	}
	if err != nil {
		return nil, err
	}
	if sender, ok := from.(*unix.SockaddrNetlink); !ok || sender.Pid != nl.PidKernel {
		return nil, errors.New("a netlink message that the kernel did not send")
	}
	return syscall.ParseNetlinkMessage(l.buffer[:n])
}

func (l *netlinkLink) close() { l.Close() }
