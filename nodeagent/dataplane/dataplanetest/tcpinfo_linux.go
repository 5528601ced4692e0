package dataplanetest

import (
	"errors"
	"net"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// retransmits returns the number of retransmitted segments of a TCP connection, and 0 for other
// connections.
func retransmits(conn net.Conn) (n uint32) {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return 0
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return 0
	}
	raw.Control(func(fd uintptr) { //nolint:errcheck // 0 then
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			n = info.Total_retrans
		}
	})
	return n
}

// Silence makes a listening socket drop all packets without an answer, as if its machine were
// switched off.
func Silence(lis *net.TCPListener) error {
	raw, err := lis.SyscallConn()
	if err != nil {
		return err
	}
	dropAll := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: 0}}
	broken := raw.Control(func(fd uintptr) {
		err = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &dropAll[0]})
	})
	return errors.Join(broken, os.NewSyscallError("setsockopt SO_ATTACH_FILTER", err))
}

// dropped returns the number of packets that a socket has dropped.
func dropped(lis *net.TCPListener) (n uint32, err error) {
	raw, err := lis.SyscallConn()
	if err != nil {
		return 0, err
	}
	const drops = 8 // SK_MEMINFO_DROPS
	var info [drops + 1]uint32
	broken := raw.Control(func(fd uintptr) {
		size := uint32(unsafe.Sizeof(info))
		_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, fd, unix.SOL_SOCKET, unix.SO_MEMINFO,
			uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0)
		if errno != 0 {
			err = os.NewSyscallError("getsockopt SO_MEMINFO", errno)
		}
	})
	return info[drops], errors.Join(broken, err)
}

// sequences returns the number of the byte that a TCP connection sends next, and the number of the
// byte that it expects next.
func sequences(conn net.Conn) (send, receive uint32, err error) {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return 0, 0, errors.New("only TCP has sequence numbers")
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return 0, 0, err
	}
	broken := raw.Control(func(fd uintptr) { send, receive, err = repairNumbers(int(fd)) })
	return send, receive, errors.Join(broken, err)
}

// repairNumbers reads sequence numbers, which the kernel reveals in its repair mode only.
func repairNumbers(fd int) (send, receive uint32, err error) {
	const on, off = 1, -1 // off without a probe of the window
	const receiveQueue, sendQueue = 1, 2
	set := func(option, value int) error { return unix.SetsockoptInt(fd, unix.IPPROTO_TCP, option, value) }
	if err := set(unix.TCP_REPAIR, on); err != nil {
		return 0, 0, os.NewSyscallError("setsockopt TCP_REPAIR", err)
	}
	defer func() { err = errors.Join(err, set(unix.TCP_REPAIR, off)) }()
	for queue, number := range map[int]*uint32{receiveQueue: &receive, sendQueue: &send} {
		if err := set(unix.TCP_REPAIR_QUEUE, queue); err != nil {
			return 0, 0, os.NewSyscallError("setsockopt TCP_REPAIR_QUEUE", err)
		}
		n, err := unix.GetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_QUEUE_SEQ)
		if err != nil {
			return 0, 0, os.NewSyscallError("getsockopt TCP_QUEUE_SEQ", err)
		}
		*number = uint32(n)
	}
	return send, receive, nil
}
