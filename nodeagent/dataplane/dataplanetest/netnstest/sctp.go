package netnstest

import (
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// One-to-one SCTP sockets support the calls of TCP sockets, so package net can use the sockets that
// are made here.

// sctpPatience is the longest time to set up an association, in seconds.
const sctpPatience = 60

func sctpSocket(v6 bool) (int, error) {
	domain := unix.AF_INET
	if v6 {
		domain = unix.AF_INET6
	}
	fd, err := unix.Socket(domain, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, unix.IPPROTO_SCTP)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	err = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &unix.Timeval{Sec: sctpPatience})
	if err != nil {
		unix.Close(fd)
		return -1, os.NewSyscallError("setsockopt", err)
	}
	return fd, nil
}

// hasSCTP reports whether the machine supports SCTP.
func hasSCTP() bool {
	fd, err := sctpSocket(false)
	if err == nil {
		unix.Close(fd)
	}
	return err == nil
}

func sockaddr(a netip.AddrPort) unix.Sockaddr {
	if a.Addr().Is6() {
		return &unix.SockaddrInet6{Addr: a.Addr().As16(), Port: int(a.Port())}
	}
	return &unix.SockaddrInet4{Addr: a.Addr().As4(), Port: int(a.Port())}
}

// boundSCTP binds a socket and applies then to it.
func boundSCTP(at netip.AddrPort, then func(fd int) error) (*os.File, error) {
	fd, err := sctpSocket(at.Addr().Is6())
	if err != nil {
		return nil, err
	}
	if err = unix.Bind(fd, sockaddr(at)); err == nil {
		err = then(fd)
	}
	if err != nil {
		unix.Close(fd)
		return nil, os.NewSyscallError("sctp", err)
	}
	return os.NewFile(uintptr(fd), "sctp"), nil
}

func listenSCTP(at netip.AddrPort) (net.Listener, error) {
	f, err := boundSCTP(at, func(fd int) error { return unix.Listen(fd, 5) })
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return net.FileListener(f)
}

func dialSCTP(source, to netip.AddrPort) (net.Conn, error) {
	f, err := boundSCTP(source, func(fd int) error { return unix.Connect(fd, sockaddr(to)) })
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return net.FileConn(f)
}
