package planes

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/nodeagent/dataplane/netfilter"
)

// balancerTable is the table of the nftables plane, in the families ip and ip6. Its map servers
// maps a frontend to the number of a class. The map classes maps the number to a chain. The chain's
// name contains the number of slots of each server of the class, and its state. The map slots maps
// a frontend and a slot number, in which slotTag is set, to a backend. Servers only for external
// clients, and slots of servers with affinity, are in separate maps, which are not read because the
// workload creates none.
const balancerTable = "portolan-balancer"

const slotTag = 0xf0c00000

// Nftables reads the content of the nftables plane in the calling thread's namespace. The kernel
// moves elements of maps when a map grows or shrinks, and a list that is read meanwhile lacks some.
// So expected servers that are not on the list, and servers that lack slots, are looked up one by
// one, which is exact.
func Nftables(expected []Frontend) (Content, error) {
	content := Content{}
	for _, family := range []string{"ip", "ip6"} {
		servers, err := listServers(family)
		if err != nil {
			return nil, fmt.Errorf("nft, family %s: %w", family, err)
		}
		for _, f := range expected {
			if familyOf(f) == family && servers[f] == nil {
				servers[f] = &nftServer{}
			}
		}
		for f, s := range servers {
			if !s.complete() {
				if s, err = lookUp(f); err != nil {
					return nil, fmt.Errorf("nft, %s: %w", f, err)
				}
			}
			if s != nil && s.open {
				content[f] = s.backends()
			}
		}
	}
	return content, nil
}

func familyOf(f Frontend) string {
	if f.Address.Addr().Is6() {
		return "ip6"
	}
	return "ip"
}

// nftServer is a server as read from the kernel.
type nftServer struct {
	class string // the key in the map classes
	// open reports whether it accepts new connections. Otherwise it drains.
	open       bool
	classKnown bool // its class was read
	size       int  // number of slots according to its class
	slots      map[int]string
}

// complete reports whether all slots are known.
func (s *nftServer) complete() bool { return s.classKnown && len(s.slots) == s.size }

// parseChain parses the name of the chain of its class, such as rr-0-2-0-any-open-5: scheduler,
// flags, slots, affinity, audience, state and lane.
func (s *nftServer) parseChain(chain string) error {
	parts := strings.Split(chain, "-")
	if len(parts) != 7 {
		return fmt.Errorf("chain %q has %d parts, want 7", chain, len(parts))
	}
	var err error
	s.size, err = strconv.Atoi(parts[2])
	s.classKnown, s.open = err == nil, parts[5] == "open"
	return err
}

func (s *nftServer) setSlot(number int, backend netip.AddrPort) {
	if s.slots == nil {
		s.slots = map[int]string{}
	}
	s.slots[number] = backend.String()
}

func (s *nftServer) backends() []string {
	c := Content{Frontend{}: {}}
	for _, b := range s.slots {
		c.add(Frontend{}, b)
	}
	return c[Frontend{}]
}

// maxListings is the maximum number of times that the lists are read until they are consistent.
const maxListings = 5

// listServers reads the lists of a family. If the tables change meanwhile, some servers may not be
// complete.
func listServers(family string) (servers map[Frontend]*nftServer, err error) {
	conn, err := netfilter.Dial("")
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.CloseLasting() }()
	table := &nftables.Table{Name: balancerTable, Family: map[string]nftables.TableFamily{
		"ip": nftables.TableFamilyIPv4, "ip6": nftables.TableFamilyIPv6,
	}[family]}
	for range maxListings {
		l := listing{conn: conn, table: table, chains: map[string]string{}, servers: map[Frontend]*nftServer{}}
		if err := l.read(); err != nil {
			return nil, err
		}
		servers = l.servers
		if !slices.ContainsFunc(slices.Collect(maps.Values(servers)), func(s *nftServer) bool { return !s.complete() }) {
			break
		}
	}
	return servers, nil
}

// listing is a reading of the maps of a family.
type listing struct {
	conn    *netfilter.Conn
	table   *nftables.Table
	chains  map[string]string // by the number of the class
	servers map[Frontend]*nftServer
	errs    []error
}

func (l *listing) read() error {
	l.each("servers", func(m netfilter.Member) error {
		at, _, err := decodeKey(m.Key)
		l.servers[at] = &nftServer{class: string(m.Value)}
		return err
	})
	l.each("classes", func(m netfilter.Member) error {
		l.chains[string(m.Key)] = m.Chain
		return nil
	})
	for _, s := range l.servers {
		if chain := l.chains[s.class]; chain != "" {
			l.errs = append(l.errs, s.parseChain(chain))
		}
	}
	l.each("slots", func(m netfilter.Member) error {
		at, rest, err := decodeKey(m.Key)
		address, _, err2 := decodeAddress(m.Value, len(m.Value)-4)
		if err := errors.Join(err, err2); err != nil || l.servers[at] == nil {
			return err
		}
		if len(rest) != 4 {
			return fmt.Errorf("the number of a slot has %d bytes, want 4", len(rest))
		}
		l.servers[at].setSlot(int(binary.NativeEndian.Uint32(rest)&^slotTag), netip.AddrPortFrom(address, binary.BigEndian.Uint16(m.Value[len(m.Value)-4:])))
		return nil
	})
	return errors.Join(l.errs...)
}

// each calls add for the elements of a map. A missing map has no elements.
func (l *listing) each(name string, add func(netfilter.Member) error) {
	err := l.conn.Elements(&nftables.Set{Table: l.table, Name: name}, func(m netfilter.Member) { l.errs = append(l.errs, add(m)) })
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		l.errs = append(l.errs, err)
	}
}

// decodeKey decodes a key: address, protocol and port, each padded to a multiple of four bytes. It
// also returns the remaining bytes.
func decodeKey(b []byte) (Frontend, []byte, error) {
	size := 4
	if len(b) > 16 {
		size = 16
	}
	address, rest, err := decodeAddress(b, size)
	if err != nil || len(rest) < 8 {
		return Frontend{}, nil, fmt.Errorf("a key of %d bytes", len(b))
	}
	protocol := map[byte]corev1.Protocol{
		unix.IPPROTO_TCP: corev1.Protocol_PROTOCOL_TCP, unix.IPPROTO_UDP: corev1.Protocol_PROTOCOL_UDP, unix.IPPROTO_SCTP: corev1.Protocol_PROTOCOL_SCTP,
	}[rest[0]]
	return Frontend{netip.AddrPortFrom(address, binary.BigEndian.Uint16(rest[4:])), protocol}, rest[8:], nil
}

func decodeAddress(b []byte, size int) (netip.Addr, []byte, error) {
	if size <= 0 || len(b) < size {
		return netip.Addr{}, nil, fmt.Errorf("%d bytes have no address", len(b))
	}
	address, ok := netip.AddrFromSlice(b[:size])
	if !ok {
		return netip.Addr{}, nil, fmt.Errorf("an address of %d bytes", size)
	}
	return address, b[size:], nil
}
