package ipvs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// batchSize is how many messages go to the kernel at once: most of the gain,
	// and few enough for the answers to fit into the socket's buffer.
	batchSize = 64
	// stalled is how long the kernel may take for an answer.
	stalled = 15 * time.Second

	headerSize  = unix.NLMSG_HDRLEN
	genericSize = unix.GENL_HDRLEN
)

// errStalled says that the kernel owes answers.
var errStalled = errors.New("the kernel does not answer on its IPVS socket")

// errUnknown marks a message whose fate is unknown because answers were lost.
var errUnknown = errors.New("the kernel's answer was lost")

// socket speaks the kernel's IPVS protocol. It is not safe for concurrent use.
type socket struct {
	fd     int
	family uint16
	seq    uint32
	buf    []byte
	in     []byte
}

// openSocket opens a socket in the network namespace of the calling thread.
func openSocket() (*socket, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_GENERIC)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	s := &socket{fd: fd, family: unix.GENL_ID_CTRL, in: make([]byte, 256<<10)}
	if err := s.prepare(); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *socket) prepare() error {
	if err := unix.Bind(s.fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return os.NewSyscallError("bind", err)
	}
	timeout := unix.NsecToTimeval(stalled.Nanoseconds())
	if err := unix.SetsockoptTimeval(s.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout); err != nil {
		return os.NewSyscallError("setsockopt", err)
	}
	// Both only make lost answers rarer.
	unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 4<<20) //nolint:errcheck // see above
	unix.SetsockoptInt(s.fd, unix.SOL_NETLINK, unix.NETLINK_CAP_ACK, 1)   //nolint:errcheck // see above
	var name attributes
	name.put(unix.CTRL_ATTR_FAMILY_NAME, []byte("IPVS\x00"))
	found := false
	err := s.ask(request{unix.CTRL_CMD_GETFAMILY, name.b}, 0, func(body []byte) error {
		in, err := parse(body)
		if id := number(in[unix.CTRL_ATTR_FAMILY_ID]); err == nil && id != 0 {
			s.family, found = uint16(id), true
		}
		return err
	})
	if err != nil || !found {
		return fmt.Errorf("the kernel has no IPVS (module ip_vs): %w", errors.Join(err, unix.ENOPROTOOPT))
	}
	return nil
}

func (s *socket) close() { unix.Close(s.fd) }

// do sends requests and returns what became of each. What failed in a batch is
// tried once more alone, in order: it may have failed because of another one.
func (s *socket) do(requests []request) []error {
	errs := make([]error, len(requests))
	for from := 0; from < len(requests); from += batchSize {
		to := min(from+batchSize, len(requests))
		s.batch(requests[from:to], errs[from:to])
	}
	for i, err := range errs {
		if err != nil && !errors.Is(err, errStalled) && len(requests) > 1 {
			first := errors.Is(err, errUnknown)
			s.batch(requests[i:i+1], errs[i:i+1])
			if first && done(requests[i].cmd, errs[i]) {
				errs[i] = nil
			}
		}
	}
	return errs
}

// done tells whether an error says that there was nothing left to do.
func done(cmd uint8, err error) bool {
	switch cmd {
	case cmdNewService, cmdNewDest:
		return errors.Is(err, unix.EEXIST)
	case cmdDelService, cmdDelDest:
		return errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ENOENT)
	}
	return false
}

// batch sends requests at once. Only the last one asks for an answer: errors
// are reported unasked, and the kernel answers in order.
func (s *socket) batch(requests []request, errs []error) {
	first := s.seq + 1
	s.buf = s.buf[:0]
	for i, r := range requests {
		flags := uint16(unix.NLM_F_REQUEST)
		if i == len(requests)-1 {
			flags |= unix.NLM_F_ACK
		}
		s.append(r, flags)
	}
	err := unix.Sendto(s.fd, s.buf, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
	if err == nil {
		err = s.answers(first, errs)
	}
	if err != nil {
		for i := range errs {
			if errs[i] == nil {
				errs[i] = err
			}
		}
	}
}

func (s *socket) append(r request, flags uint16) {
	s.seq++
	size := headerSize + genericSize + len(r.body)
	s.buf = binary.NativeEndian.AppendUint32(s.buf, uint32(size))
	s.buf = binary.NativeEndian.AppendUint16(s.buf, s.family)
	s.buf = binary.NativeEndian.AppendUint16(s.buf, flags)
	s.buf = binary.NativeEndian.AppendUint32(s.buf, s.seq)
	s.buf = binary.NativeEndian.AppendUint32(s.buf, 0)
	s.buf = append(s.buf, r.cmd, 1, 0, 0)
	s.buf = append(s.buf, r.body...)
	s.buf = append(s.buf, make([]byte, -size&3)...)
}

// answers collects errors until the last message of a batch is answered.
func (s *socket) answers(first uint32, errs []error) error {
	clear(errs)
	return s.receive(func(kind, _ uint16, seq uint32, body []byte) (bool, error) {
		i := int(seq - first)
		if i < 0 || i >= len(errs) || kind != unix.NLMSG_ERROR { // of a batch before, which was given up
			return false, nil
		}
		errs[i] = errnoIn(body)
		return i == len(errs)-1, nil
	})
}

func errnoIn(body []byte) error {
	if len(body) < 4 {
		return errUnknown
	}
	if code := int32(binary.NativeEndian.Uint32(body)); code != 0 {
		return unix.Errno(-code)
	}
	return nil
}

// receive hands messages to fn until it is done.
func (s *socket) receive(fn func(kind, flags uint16, seq uint32, body []byte) (bool, error)) error {
	deadline := time.Now().Add(stalled)
	for {
		n, _, err := unix.Recvfrom(s.fd, s.in, 0)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			return errStalled
		case errors.Is(err, unix.ENOBUFS):
			return errUnknown
		case err != nil:
			return os.NewSyscallError("recvfrom", err)
		case time.Now().After(deadline):
			return errStalled
		}
		for b := s.in[:n]; len(b) >= headerSize; {
			size := int(binary.NativeEndian.Uint32(b))
			if size < headerSize || size > len(b) {
				return fmt.Errorf("netlink message of %d bytes in %d", size, len(b))
			}
			end, err := fn(binary.NativeEndian.Uint16(b[4:]), binary.NativeEndian.Uint16(b[6:]),
				binary.NativeEndian.Uint32(b[8:]), b[headerSize:size])
			if end || err != nil {
				return err
			}
			b = b[min((size+3)&^3, len(b)):]
		}
	}
}

// errInterrupted says that what was dumped changed meanwhile.
var errInterrupted = errors.New("changed while it was read")

// dump reads a list. It is read again if it changed meanwhile.
func (s *socket) dump(r request, start func(), fn func(body []byte) error) error {
	for range 5 {
		start()
		err := s.ask(r, unix.NLM_F_DUMP, fn)
		if !errors.Is(err, errInterrupted) {
			return err
		}
	}
	return errInterrupted
}

// ask sends one request and hands the answers' attributes to fn.
func (s *socket) ask(r request, flags uint16, fn func(body []byte) error) error {
	s.buf = s.buf[:0]
	s.append(r, unix.NLM_F_REQUEST|unix.NLM_F_ACK|flags)
	if err := unix.Sendto(s.fd, s.buf, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return os.NewSyscallError("sendto", err)
	}
	want, interrupted := s.seq, false
	err := s.receive(func(kind, msgFlags uint16, seq uint32, body []byte) (bool, error) {
		if seq != want {
			return false, nil
		}
		interrupted = interrupted || msgFlags&unix.NLM_F_DUMP_INTR != 0
		switch kind {
		case unix.NLMSG_ERROR, unix.NLMSG_DONE:
			return true, errnoIn(body)
		}
		if len(body) < genericSize {
			return true, errors.New("netlink message without a header")
		}
		return false, fn(body[genericSize:])
	})
	if err == nil && interrupted {
		return errInterrupted
	}
	return err
}

// services reads all virtual servers of the kernel.
func (s *socket) services() (map[serviceID]settings, error) {
	var out map[serviceID]settings
	err := s.dump(request{cmdGetService, nil}, func() { out = map[serviceID]settings{} }, func(body []byte) error {
		id, set, ok, err := parseService(body)
		if ok {
			out[id] = set
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read virtual servers: %w", err)
	}
	return out, nil
}

// destinations reads the backends of a virtual server, which may be gone.
func (s *socket) destinations(id serviceID) ([]destination, error) {
	var out []destination
	err := s.dump(request{cmdGetDest, identity(id)}, func() { out = nil }, func(body []byte) error {
		d, err := parseDestination(body, id.addr.Addr().Is4())
		out = append(out, d)
		return err
	})
	if err != nil && !errors.Is(err, unix.ESRCH) {
		return nil, fmt.Errorf("read backends of %s: %w", id, err)
	}
	return out, nil
}
