package server

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mmsghdr is struct mmsghdr of recvmmsg(2), which golang.org/x/sys lacks.
type mmsghdr struct {
	hdr unix.Msghdr
	n   uint32
	_   [unsafe.Sizeof(uintptr(0)) - 4]byte
}

// controlSize is the space in bytes for one packet information message.
const controlSize = 64

// packetSlot is the memory for one packet and its answer.
type packetSlot struct {
	in      [maxQuery]byte
	from    [unix.SizeofSockaddrInet6]byte
	control [controlSize]byte
	inVec   unix.Iovec
	outVec  unix.Iovec
	out     []byte
}

// batchConn reads with recvmmsg(2) and writes with sendmmsg(2). It allocates memory only when it is
// made.
type batchConn struct {
	raw syscall.RawConn
	// anyAddr is true if the socket listens on several addresses. An answer must then come from the
	// address to which its question was sent.
	anyAddr  bool
	slots    [batchSize]packetSlot
	received [batchSize]mmsghdr
	staged   [batchSize]mmsghdr
	nStaged  int

	// State of the current system call. The functions are made once, because a closure per call
	// would be garbage.
	n                   int
	errno               syscall.Errno
	readReady, writeAll func(fd uintptr) bool
}

func newPacketConn(conn *net.UDPConn, maxReply int) (packetConn, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	b := &batchConn{raw: raw}
	local, _ := netip.ParseAddrPort(conn.LocalAddr().String())
	if local.Addr().IsUnspecified() {
		b.anyAddr = true
		if err := enablePacketInfo(raw, local.Addr()); err != nil {
			return nil, err
		}
	}
	for i := range b.slots {
		s := &b.slots[i]
		s.out = make([]byte, maxReply)
		s.inVec.Base = &s.in[0]
		s.inVec.SetLen(len(s.in))
		h := &b.received[i].hdr
		h.Name, h.Iov = &s.from[0], &s.inVec
		h.SetIovlen(1)
	}
	b.readReady, b.writeAll = b.recvmmsg, b.sendmmsg
	return b, nil
}

// enablePacketInfo makes the kernel report the local address to which each packet was sent.
func enablePacketInfo(raw syscall.RawConn, local netip.Addr) error {
	var set error
	err := raw.Control(func(fd uintptr) {
		if local.Is4() {
			set = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_PKTINFO, 1)
		} else {
			set = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1)
		}
	})
	if err == nil {
		err = set
	}
	if err != nil {
		return fmt.Errorf("ask for packet information: %w", err)
	}
	return nil
}

func (b *batchConn) receive() (int, error) {
	for i := range b.received {
		h := &b.received[i].hdr
		h.Namelen = unix.SizeofSockaddrInet6
		h.Flags = 0
		if b.anyAddr {
			h.Control = &b.slots[i].control[0]
			h.SetControllen(controlSize)
		}
	}
	b.nStaged = 0
	if err := b.raw.Read(b.readReady); err != nil {
		return 0, err
	}
	if b.errno != 0 {
		return 0, b.errno
	}
	return b.n, nil
}

func (b *batchConn) recvmmsg(fd uintptr) bool {
	for {
		n, _, errno := unix.Syscall6(unix.SYS_RECVMMSG, fd, uintptr(unsafe.Pointer(&b.received[0])), batchSize, unix.MSG_DONTWAIT, 0, 0)
		switch errno {
		// ECONNREFUSED is an ICMP error from a client that has closed its socket.
		case unix.EINTR, unix.ECONNREFUSED:
			continue
		case unix.EAGAIN:
			return false
		}
		b.n, b.errno = int(n), errno
		return true
	}
}

func (b *batchConn) packet(i int) []byte {
	if b.received[i].hdr.Flags&unix.MSG_TRUNC != 0 {
		return b.slots[i].in[:headerSize] // too long for a question, so only its header is answered
	}
	return b.slots[i].in[:b.received[i].n]
}

func (b *batchConn) replyBuffer(i int) []byte { return b.slots[i].out }

func (b *batchConn) client(i int) netip.AddrPort {
	from := &b.slots[i].from
	port := binary.BigEndian.Uint16(from[2:])
	if binary.NativeEndian.Uint16(from[:]) == unix.AF_INET {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(from[4:8])), port)
	}
	return netip.AddrPortFrom(netip.AddrFrom16([16]byte(from[8:24])).Unmap(), port)
}

// control returns the received packet information in the form for the answer: from the same
// address, by the interface that the routes choose.
func (b *batchConn) control(i int) []byte {
	h := &b.received[i].hdr
	if !b.anyAddr || h.Controllen < unix.SizeofCmsghdr {
		return nil
	}
	control := b.slots[i].control[:h.Controllen]
	cmsg := (*unix.Cmsghdr)(unsafe.Pointer(&control[0]))
	data := control[unix.CmsgLen(0):]
	switch {
	case cmsg.Level == unix.IPPROTO_IP && cmsg.Type == unix.IP_PKTINFO && len(data) >= unix.SizeofInet4Pktinfo:
		(*unix.Inet4Pktinfo)(unsafe.Pointer(&data[0])).Ifindex = 0
	case cmsg.Level == unix.IPPROTO_IPV6 && cmsg.Type == unix.IPV6_PKTINFO && len(data) >= unix.SizeofInet6Pktinfo:
		info := (*unix.Inet6Pktinfo)(unsafe.Pointer(&data[0]))
		if !netip.AddrFrom16(info.Addr).IsLinkLocalUnicast() {
			info.Ifindex = 0
		}
	default:
		return nil
	}
	return control
}

func (b *batchConn) route(i int) route {
	return route{client: b.client(i), control: slices.Clone(b.control(i))}
}

func (b *batchConn) stage(i int, reply []byte) {
	s := &b.slots[i]
	s.outVec.Base = unsafe.SliceData(reply)
	s.outVec.SetLen(len(reply))
	h := &b.staged[b.nStaged].hdr
	h.Name, h.Namelen = &s.from[0], b.received[i].hdr.Namelen
	h.Iov = &s.outVec
	h.SetIovlen(1)
	if control := b.control(i); control != nil {
		h.Control = &control[0]
		h.SetControllen(len(control))
	} else {
		h.Control = nil
		h.SetControllen(0)
	}
	b.nStaged++
}

func (b *batchConn) send() error {
	b.n, b.errno = 0, 0 // n counts the messages sent
	if b.nStaged == 0 {
		return nil
	}
	if err := b.raw.Write(b.writeAll); err != nil {
		return err
	}
	if b.errno != 0 {
		return b.errno
	}
	return nil
}

func (b *batchConn) sendmmsg(fd uintptr) bool {
	for b.n < b.nStaged {
		n, _, errno := unix.Syscall6(unix.SYS_SENDMMSG, fd, uintptr(unsafe.Pointer(&b.staged[b.n])), uintptr(b.nStaged-b.n), unix.MSG_DONTWAIT, 0, 0)
		switch errno {
		case 0:
			b.n += int(n)
		case unix.EINTR:
		case unix.EAGAIN:
			return false
		default:
			// An address that cannot be reached must not cost other clients their answers.
			b.n++
			if errno != unix.ECONNREFUSED && errno != unix.EPERM {
				b.errno = errno
			}
		}
	}
	return true
}
