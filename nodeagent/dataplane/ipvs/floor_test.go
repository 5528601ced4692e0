package ipvs_test

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	moby "github.com/moby/ipvs"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"portolan.dev/nodeagent/dataplane/dataplanetest/netnstest"
	"portolan.dev/nodeagent/dataplane/host"
	"portolan.dev/nodeagent/kerneltest"
	"portolan.dev/nodeagent/plan"
)

// floor is the minimum cost of programming: messages that are encoded beforehand, and a socket. The
// encoding is done by a library and shares nothing with the plane, so that a mistake or a needless
// attribute in the plane does not affect the floor.
type floor struct {
	fd     int
	loads  [][]byte
	counts []int // messages in each load
}

// newFloor encodes the servers, with the given number of messages in one load.
func newFloor(t testing.TB, namespace string, servers []*plan.VirtualServer, together int) *floor {
	t.Helper()
	f := &floor{}
	var family *netlink.GenlFamily
	err := host.Within(namespace, func() (err error) {
		if family, err = netlink.GenlFamilyGet("IPVS"); err != nil {
			return err
		}
		f.fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_GENERIC)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(f.fd) })
	if err := unix.SetsockoptTimeval(f.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: int64(time.Minute / time.Second)}); err != nil {
		t.Fatal(err)
	}
	var all [][]byte
	for _, v := range servers {
		all = append(all, newServiceMessage(family.ID, v))
		for _, r := range v.Reals {
			all = append(all, newDestinationMessage(family.ID, v, r))
		}
	}
	for from := 0; from < len(all); from += together {
		var load []byte
		part := all[from:min(from+together, len(all))]
		for _, message := range part {
			load = append(load, message...)
		}
		f.loads, f.counts = append(f.loads, load), append(f.counts, len(part))
	}
	return f
}

// send sends all messages and waits for the answer to each.
func (f *floor) send() error {
	answers := make([]byte, 1<<16)
	for i, load := range f.loads {
		if err := unix.Sendto(f.fd, load, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
			return err
		}
		for left := f.counts[i]; left > 0; {
			n, _, err := unix.Recvfrom(f.fd, answers, 0)
			if err != nil {
				return fmt.Errorf("%d answers are missing: %w", left, err)
			}
			got, err := acknowledged(answers[:n])
			if err != nil {
				return err
			}
			left -= got
		}
	}
	return nil
}

// acknowledged counts the acknowledgements in the kernel's messages.
func acknowledged(b []byte) (count int, err error) {
	for len(b) >= unix.SizeofNlMsghdr+4 {
		size := int(binary.NativeEndian.Uint32(b))
		if kind := binary.NativeEndian.Uint16(b[4:]); kind != unix.NLMSG_ERROR {
			return count, fmt.Errorf("a message of type %d came", kind)
		}
		if code := int32(binary.NativeEndian.Uint32(b[unix.SizeofNlMsghdr:])); code != 0 {
			return count, unix.Errno(-code)
		}
		count++
		b = b[min((size+3)&^3, len(b)):]
	}
	return count, nil
}

// The numbers of the kernel's include/uapi/linux/ip_vs.h, repeated here to be independent of the
// plane.
const (
	ipvsNewService, ipvsNewDest                                            = 1, 5
	ipvsService, ipvsDest                                                  = 1, 2
	ipvsFamily, ipvsProtocol, ipvsAddr, ipvsPort                           = 1, 2, 3, 4
	ipvsScheduler, ipvsFlags, ipvsTimeout, ipvsNetmask                     = 6, 7, 8, 9
	ipvsDestAddr, ipvsDestPort, ipvsDestForward, ipvsDestWeight            = 1, 2, 3, 4
	ipvsDestUpperThreshold, ipvsDestLowerThreshold, ipvsForwardMasq        = 5, 6, 0
	ipvsOneClient                                                   uint32 = 0xffffffff
)

func newServiceMessage(family uint16, v *plan.VirtualServer) []byte {
	service := identity(v)
	service.AddRtAttr(ipvsScheduler, nl.ZeroTerminated(v.Scheduler.String()))
	service.AddRtAttr(ipvsFlags, append(nl.Uint32Attr(0), nl.Uint32Attr(0xffffffff)...))
	service.AddRtAttr(ipvsTimeout, nl.Uint32Attr(0))
	netmask := ipvsOneClient
	if v.Addr.Addr().Is6() {
		netmask = 128
	}
	service.AddRtAttr(ipvsNetmask, nl.Uint32Attr(netmask))
	return message(family, ipvsNewService, service)
}

func newDestinationMessage(family uint16, v *plan.VirtualServer, r plan.RealServer) []byte {
	dest := nl.NewRtAttr(ipvsDest|unix.NLA_F_NESTED, nil)
	addr := make([]byte, 16)
	copy(addr, r.Addr.Addr().AsSlice())
	dest.AddRtAttr(ipvsDestAddr, addr)
	dest.AddRtAttr(ipvsDestPort, binary.BigEndian.AppendUint16(nil, r.Addr.Port()))
	for kind, value := range map[int]uint32{
		ipvsDestForward: ipvsForwardMasq, ipvsDestWeight: r.Weight, ipvsDestUpperThreshold: 0, ipvsDestLowerThreshold: 0,
	} {
		dest.AddRtAttr(kind, nl.Uint32Attr(value))
	}
	return message(family, ipvsNewDest, identity(v), dest)
}

// identity returns the attributes that identify a virtual server.
func identity(v *plan.VirtualServer) *nl.RtAttr {
	service := nl.NewRtAttr(ipvsService|unix.NLA_F_NESTED, nil)
	family := uint16(unix.AF_INET)
	if v.Addr.Addr().Is6() {
		family = unix.AF_INET6
	}
	service.AddRtAttr(ipvsFamily, nl.Uint16Attr(family))
	service.AddRtAttr(ipvsProtocol, nl.Uint16Attr(uint16(v.Protocol)))
	addr := make([]byte, 16)
	copy(addr, v.Addr.Addr().AsSlice())
	service.AddRtAttr(ipvsAddr, addr)
	service.AddRtAttr(ipvsPort, binary.BigEndian.AppendUint16(nil, v.Addr.Port()))
	return service
}

func message(family uint16, command uint8, attributes ...*nl.RtAttr) []byte {
	request := nl.NewNetlinkRequest(int(family), unix.NLM_F_ACK)
	request.AddData(&nl.Genlmsg{Command: command, Version: 1})
	for _, a := range attributes {
		request.AddData(a)
	}
	return request.Serialize()
}

// TestFloorLoads reads the loaded servers back with a library, because a floor that loads less than
// the plane would not be a floor.
func TestFloorLoads(t *testing.T) {
	kerneltest.Need(t)
	n := netnstest.NewNetwork(t)
	servers := netnstest.Servers(50, 3)
	if err := newFloor(t, n.Node.Path, servers, 64).send(); err != nil {
		t.Fatal(err)
	}
	h, err := moby.New(n.Node.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	loaded, err := h.GetServices()
	if err != nil || len(loaded) != len(servers) {
		t.Fatalf("%d services are loaded, want %d: %v", len(loaded), len(servers), err)
	}
	for _, s := range loaded {
		destinations, err := h.GetDestinations(s)
		if err != nil || len(destinations) != 3 || destinations[0].Weight != 1 || s.SchedName != "rr" || s.Port != 80 {
			t.Fatalf("service %+v has destinations %+v: %v", s, destinations, err)
		}
	}
}
