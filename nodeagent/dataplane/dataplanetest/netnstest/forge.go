package netnstest

import (
	"net/netip"
	"os"

	"golang.org/x/sys/unix"

	"portolan.dev/nodeagent/dataplane/dataplanetest"
)

var _ dataplanetest.Forger = (*Network)(nil)

// Forge implements dataplanetest.Forger.
func (n *Network) Forge(from dataplanetest.ClientLocation, packet []byte) error {
	return n.place(from).Do(func() error { return sendRaw(packet) })
}

// sendRaw sends a complete IP packet.
func sendRaw(packet []byte) error {
	v6 := packet[0]>>4 == 6
	domain, destination := unix.AF_INET, packet[16:20]
	if v6 {
		domain, destination = unix.AF_INET6, packet[24:40]
	}
	fd, err := unix.Socket(domain, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	to, _ := netip.AddrFromSlice(destination) // the length is right
	return os.NewSyscallError("sendto", unix.Sendto(fd, packet, 0, sockaddr(netip.AddrPortFrom(to, 0))))
}
