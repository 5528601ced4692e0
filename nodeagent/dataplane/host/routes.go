package host

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	rtnetlink "github.com/mdlayher/netlink"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// RouteOwner marks routes in the kernel (their protocol), so that each part of the agent changes only
// its own.
type RouteOwner uint8

// The owners of routes.
const (
	// PlaneRoutes are the routes of a plane, to addresses that it forwards.
	PlaneRoutes RouteOwner = 112
	// ProxyRoutes are the routes to addresses that a proxy on the node serves.
	ProxyRoutes RouteOwner = 113
)

// Routes make virtual addresses local to the node, without an address on any device. It opens its
// sockets in the namespace of the thread that calls NewRoutes. It is not safe for concurrent use.
type Routes struct {
	owner  RouteOwner
	handle *netlink.Handle
	watch  *Watch
	lo     int
	have   map[netip.Prefix]bool
	// others are the local routes of other programs and of the kernel itself. They stay as they are, and
	// their prefixes need no route of the owner.
	others map[netip.Prefix]bool
}

// NewRoutes reads the routes of an owner.
func NewRoutes(owner RouteOwner) (*Routes, error) {
	handle, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("routes: %w", err)
	}
	r := &Routes{owner: owner, handle: handle, have: map[netip.Prefix]bool{}, others: map[netip.Prefix]bool{}}
	if err := r.open(); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

func (r *Routes) open() error {
	lo, err := r.handle.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("loopback device: %w", err)
	}
	r.lo = lo.Attrs().Index
	if lo.Attrs().Flags&net.FlagUp == 0 { // local addresses are unreachable while lo is down
		if err := r.handle.LinkSetUp(lo); err != nil {
			return fmt.Errorf("loopback device: %w", err)
		}
	}
	if r.watch, err = NewWatch("", unix.NETLINK_ROUTE, routeGroups, r.owner.lost); err != nil {
		return err
	}
	return r.Read()
}

// routeGroups are the netlink groups for changes of routes.
const routeGroups = unix.RTMGRP_IPV4_ROUTE | unix.RTMGRP_IPV6_ROUTE

// lost reports whether a message means that a route of the owner was removed, by any program.
func (o RouteOwner) lost(m *rtnetlink.Message) bool {
	const table, protocol = 4, 5 // offsets in the message's header
	return m.Header.Type == unix.RTM_DELROUTE && len(m.Data) > protocol &&
		m.Data[table] == unix.RT_TABLE_LOCAL && m.Data[protocol] == byte(o)
}

// Lost returns a channel that receives a token when routes of the owner were removed.
func (r *Routes) Lost() <-chan struct{} { return r.watch.Changed() }

// Close closes the sockets and leaves the routes in the kernel.
func (r *Routes) Close() {
	if r.watch != nil {
		r.watch.Close()
	}
	r.handle.Close()
}

// listTries is the number of times that a list is read if it changes while the kernel returns it.
const listTries = 10

// listWhole reads a list until the kernel returns it without an interruption. The kernel interrupts
// a list if an entry changes meanwhile, such as an address of another device.
func listWhole[T any](read func() ([]T, error)) (list []T, err error) {
	for range listTries {
		if list, err = read(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return list, err
}

// Read reads the routes from the kernel again.
func (r *Routes) Read() error {
	have, others := map[netip.Prefix]bool{}, map[netip.Prefix]bool{}
	filter := &netlink.Route{Table: unix.RT_TABLE_LOCAL, Type: unix.RTN_LOCAL}
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		routes, err := listWhole(func() ([]netlink.Route, error) {
			return r.handle.RouteListFiltered(family, filter, netlink.RT_FILTER_TABLE|netlink.RT_FILTER_TYPE)
		})
		if err != nil {
			return fmt.Errorf("read routes: %w", err)
		}
		for i := range routes {
			p, ok := prefixOf(routes[i].Dst)
			switch {
			case !ok:
			case routes[i].Protocol == netlink.RouteProtocol(r.owner):
				have[p] = true
			default:
				others[p] = true
			}
		}
	}
	r.have, r.others = have, others
	return nil
}

// Has reports whether p has a local route.
func (r *Routes) Has(p netip.Prefix) bool { return r.have[p] || r.others[p] }

// All returns the owner's routes.
func (r *Routes) All() []netip.Prefix {
	var out []netip.Prefix
	for p := range r.have {
		out = append(out, p)
	}
	return out
}

// Add makes a prefix local. If it has a route of another program already, that route stays.
func (r *Routes) Add(p netip.Prefix) error {
	if r.have[p] {
		return nil
	}
	switch err := r.handle.RouteAdd(r.route(p)); {
	case errors.Is(err, unix.EEXIST):
		r.others[p] = true
	case err != nil:
		return fmt.Errorf("route to %s: %w", p, err)
	default:
		r.have[p] = true
	}
	return nil
}

// IsLocal reports whether the kernel delivers packets to an address on this machine.
func (r *Routes) IsLocal(addr netip.Addr) bool {
	found, err := r.handle.RouteGet(addr.AsSlice())
	return err == nil && len(found) > 0 && found[0].Type == unix.RTN_LOCAL
}

// Delete removes a route of the owner.
func (r *Routes) Delete(p netip.Prefix) error {
	if !r.have[p] {
		return nil
	}
	if err := r.handle.RouteDel(r.route(p)); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("route to %s: %w", p, err)
	}
	delete(r.have, p)
	return nil
}

// Addresses returns the addresses of the node's devices.
func (r *Routes) Addresses() (map[netip.Addr]bool, error) {
	list, err := listWhole(func() ([]netlink.Addr, error) { return r.handle.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, fmt.Errorf("addresses: %w", err)
	}
	out := make(map[netip.Addr]bool, len(list))
	for i := range list {
		if a, ok := netip.AddrFromSlice(list[i].IP); ok {
			out[a.Unmap()] = true
		}
	}
	return out, nil
}

func (r *Routes) route(p netip.Prefix) *netlink.Route {
	route := &netlink.Route{
		LinkIndex: r.lo, Table: unix.RT_TABLE_LOCAL, Type: unix.RTN_LOCAL, Protocol: netlink.RouteProtocol(r.owner),
		Dst: &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())},
	}
	if p.Addr().Is4() {
		route.Scope = netlink.SCOPE_HOST
	}
	return route
}

func prefixOf(n *net.IPNet) (netip.Prefix, bool) {
	if n == nil {
		return netip.Prefix{}, false
	}
	addr, ok := netip.AddrFromSlice(n.IP)
	bits, _ := n.Mask.Size()
	return netip.PrefixFrom(addr.Unmap(), bits), ok
}
