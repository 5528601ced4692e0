package ipvs

import (
	"net"
	"net/netip"
	"time"

	moby "github.com/moby/ipvs"
	"golang.org/x/sys/unix"

	"portolan.dev/nodeagent/dataplane/ipvs/batch"
	"portolan.dev/nodeagent/dataplane/kernel"
	"portolan.dev/nodeagent/plan"
)

// Flags of a service in the kernel's include/uapi/linux/ip_vs.h, which the library does not name.
const (
	flagPersistent = 0x1
	flagOnePacket  = 0x4  // of UDP; each datagram is scheduled by itself
	flagFallback   = 0x8  // for sh and mh
	flagSourcePort = 0x10 // for sh and mh
	flagScheduler3 = 0x20 // of no scheduler yet
	// flagsCompared are all flags but the kernel's own, with which it notes that a service is in its tables.
	flagsCompared = flagPersistent | flagOnePacket | flagFallback | flagSourcePort | flagScheduler3
)

// changeOf returns the change of the kernel's tables that an operation requests.
func changeOf(o *kernel.Op) batch.Change {
	c := batch.Change{Service: identity(serverOf(o.ID))}
	switch o.Kind {
	case kernel.AddServer, kernel.SetServer:
		c.Command = batch.NewService
		if o.Kind == kernel.SetServer {
			c.Command = batch.UpdateService
		}
		c.Service.SchedName, c.Service.Flags = o.Settings.Scheduler, o.Settings.Flags|mark
		c.Service.Timeout = uint32(o.Settings.Affinity / time.Second)
	case kernel.DeleteServer:
		c.Command = batch.DelService
	case kernel.AddBackend:
		c.Command, c.Destination = batch.NewDestination, destination(o.Backend, o.Weight)
	case kernel.SetBackend:
		c.Command, c.Destination = batch.UpdateDestination, destination(o.Backend, o.Weight)
	default:
		c.Command, c.Destination = batch.DelDestination, destination(o.Backend, 0)
	}
	return c
}

// serverOf returns the kernel's frontend of a server.
func serverOf(id kernel.ID) plan.Frontend {
	return plan.Frontend{Addr: id.Addr, Protocol: id.Protocol}
}

// identity returns a service with the properties that identify it, and with affinity by single address.
func identity(id plan.Frontend) moby.Service {
	s := moby.Service{
		Address: id.Addr.Addr().AsSlice(), Port: id.Addr.Port(), Protocol: uint16(id.Protocol),
		AddressFamily: unix.AF_INET,
	}
	if id.Addr.Addr().Is6() {
		s.AddressFamily = unix.AF_INET6
	}
	s.Netmask = netmaskOf(s.AddressFamily)
	return s
}

// netmaskOf returns the mask with which each client address has an affinity of its own.
func netmaskOf(family uint16) uint32 {
	if family == unix.AF_INET6 {
		return 128
	}
	return 0xffffffff
}

func destination(addr netip.AddrPort, weight uint32) moby.Destination {
	return moby.Destination{
		Address: addr.Addr().AsSlice(), Port: addr.Port(), Weight: int(weight), ConnectionFlags: moby.ConnectionFlagMasq,
	}
}

func frontendOf(s *moby.Service) plan.Frontend {
	return plan.Frontend{Addr: addrPort(s.Address, s.Port), Protocol: plan.Protocol(s.Protocol)}
}

func addrOf(d *moby.Destination) netip.AddrPort { return addrPort(d.Address, d.Port) }

func addrPort(ip net.IP, port uint16) netip.AddrPort {
	addr, _ := netip.AddrFromSlice(ip)
	return netip.AddrPortFrom(addr, port)
}

// settingsOf returns the settings of a service.
func settingsOf(s *moby.Service) kernel.Settings {
	return kernel.Settings{
		Scheduler: s.SchedName, Flags: s.Flags & flagsCompared, Affinity: time.Duration(s.Timeout) * time.Second,
		Altered: s.Netmask != netmaskOf(s.AddressFamily),
	}
}

// backendOf returns a backend. The kernel counts UDP flows as inactive.
func backendOf(p plan.Protocol, d *moby.Destination) kernel.Backend {
	active, inactive := uint32(d.ActiveConnections), uint32(d.InactiveConnections)
	if p == plan.UDP {
		active, inactive = inactive, active
	}
	return kernel.Backend{
		Addr: addrOf(d), Weight: uint32(d.Weight), Connections: active, Closing: inactive,
		Altered: d.ConnectionFlags&moby.ConnectionFlagFwdMask != moby.ConnectionFlagMasq || d.UpperThreshold != 0 || d.LowerThreshold != 0,
	}
}
