package ipvs

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// wire carries netlink messages to the kernel and its answers back.
type wire interface {
	send(messages []byte) error
	// receive returns EAGAIN if no answer arrives within the wire's patience, and ENOBUFS if
	// answers were lost.
	receive(into []byte) (int, error)
	close()
}

// netlinkWire is a netlink socket.
type netlinkWire struct{ fd int }

// dialKernel opens a wire in the network namespace of the calling thread.
func dialKernel(patience time.Duration) (wire, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_GENERIC)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	w := &netlinkWire{fd}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		w.close()
		return nil, os.NewSyscallError("bind", err)
	}
	timeout := unix.NsecToTimeval(patience.Nanoseconds())
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout); err != nil {
		w.close()
		return nil, os.NewSyscallError("setsockopt", err)
	}
	// Both options only make lost answers less likely.
	unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 4<<20) //nolint:errcheck // see above
	unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_CAP_ACK, 1)   //nolint:errcheck // see above
	return w, nil
}

func (w *netlinkWire) send(messages []byte) error {
	return unix.Sendto(w.fd, messages, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
}

func (w *netlinkWire) receive(into []byte) (int, error) { return unix.Read(w.fd, into) }

func (w *netlinkWire) close() { unix.Close(w.fd) }

// line is a wire with a goroutine of its own. If the kernel does not return from a call, only that
// goroutine hangs. The caller can also encode messages while the kernel works on the previous ones.
type line struct {
	jobs chan func(*exchange)
	over chan struct{} // closed when the goroutine has ended
}

// exchange is the wire with the receive buffer that a job uses.
type exchange struct {
	wire
	in []byte
}

func newLine(w wire) *line {
	l := &line{jobs: make(chan func(*exchange)), over: make(chan struct{})}
	go func() {
		defer close(l.over)
		defer w.close()
		x := &exchange{w, make([]byte, 256<<10)}
		for job := range l.jobs {
			job(x)
		}
	}()
	return l
}

// hangUp ends the goroutine as soon as its current call to the kernel returns.
func (l *line) hangUp() { close(l.jobs) }

// gone reports whether the goroutine has ended.
func (l *line) gone() bool {
	select {
	case <-l.over:
		return true
	default:
		return false
	}
}

// answers collects the errors of messages that were sent together, until the last one is answered.
// The kernel answers in order.
func (x *exchange) answers(first uint32, errs []error) error {
	return x.each(func(kind, _ uint16, seq uint32, body []byte) (bool, error) {
		i := int(seq - first)
		if i < 0 || i >= len(errs) || kind != unix.NLMSG_ERROR { // answer to an earlier batch that was abandoned
			return false, nil
		}
		errs[i] = errnoIn(body)
		return i == len(errs)-1, nil
	})
}

// each passes messages to fn until fn reports that it is done.
func (x *exchange) each(fn func(kind, flags uint16, seq uint32, body []byte) (bool, error)) error {
	for {
		n, err := x.receive(x.in)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			return errStalled
		case errors.Is(err, unix.ENOBUFS):
			return errUnknown
		case err != nil:
			return os.NewSyscallError("read", err)
		}
		for b := x.in[:n]; len(b) >= headerSize; {
			size := int(native.Uint32(b))
			if size < headerSize || size > len(b) {
				return fmt.Errorf("netlink message of %d bytes in %d", size, len(b))
			}
			end, err := fn(native.Uint16(b[4:]), native.Uint16(b[6:]), native.Uint32(b[8:]), b[headerSize:size])
			if end || err != nil {
				return err
			}
			b = b[min((size+3)&^3, len(b)):]
		}
	}
}

func errnoIn(body []byte) error {
	if len(body) < 4 {
		return errUnknown
	}
	if code := int32(native.Uint32(body)); code != 0 {
		return unix.Errno(-code)
	}
	return nil
}
