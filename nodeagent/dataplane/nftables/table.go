package nftables

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"

	"portolan.dev/nodeagent/dataplane/netfilter"
	"portolan.dev/nodeagent/plan"
)

// tableName is the name of the plane's tables, in the families ip and ip6.
const tableName = "portolan-balancer"

// chunk is the number of elements in one message.
const chunk = 500

// maxAffinityClients is the maximum number of clients with affinity that a node remembers in each
// family. Other clients get a new backend with each connection.
const maxAffinityClients = 1 << 20

// priority is the priority of the base chains. They come before the chains of other programs that
// translate addresses.
const priority = -110

// table is the plane's table of one family.
type table struct {
	*nftables.Table
	netfilter.Packet
	pods, nodes *nftables.Set // sources
	sets        [2]sets       // of servers for AnyClient, and of servers for external clients
	chains      map[class]chainUse
	last        uint32 // the last number that was given to a class
	servers     map[key]*server
}

// sets are the sets for servers of one kind.
type sets struct {
	classes  *nftables.Set // number: chain of the class
	servers  *nftables.Set // frontend: number of the class
	slots    *nftables.Set // frontend, number of a slot or, with affinity, of a member: backend
	picks    *nftables.Set // frontend, number of a slot: number of a member, of servers with affinity
	idle     *nftables.Set // frontend, backend: backends that take no new connections
	affinity *nftables.Set // client, frontend: number of a member, until it expires
}

// newTable describes the table of one family. If counts is set, each server has a counter of new
// connections. Other packets do not look up their server.
func newTable(name string, v6, counts bool) *table {
	t := &table{
		Table:  &nftables.Table{Name: name, Family: nftables.TableFamilyIPv4},
		Packet: netfilter.Packet{V6: v6}, chains: map[class]chainUse{}, servers: map[key]*server{},
	}
	if v6 {
		t.Family = nftables.TableFamilyIPv6
	}
	t.pods = &nftables.Set{Table: t.Table, Name: "pods", KeyType: t.AddrType(), Interval: true}
	t.nodes = &nftables.Set{Table: t.Table, Name: "nodes", KeyType: t.AddrType(), Interval: true}
	t.sets[0], t.sets[1] = t.define("", counts), t.define("-outside", counts)
	return t
}

func (t *table) define(suffix string, counts bool) sets {
	addr := t.AddrType()
	frontend := []nftables.SetDatatype{addr, nftables.TypeInetProto, nftables.TypeInetService}
	backend := nftables.MustConcatSetType(addr, nftables.TypeInetService)
	set := func(name string, data nftables.SetDatatype, parts ...nftables.SetDatatype) *nftables.Set {
		return &nftables.Set{
			Table: t.Table, Name: name + suffix, Concatenation: true, KeyType: nftables.MustConcatSetType(parts...),
			IsMap: data.Bytes > 0, DataType: data,
		}
	}
	with := func(more ...nftables.SetDatatype) []nftables.SetDatatype {
		return append(append([]nftables.SetDatatype{}, frontend...), more...)
	}
	s := sets{
		classes: &nftables.Set{
			Table: t.Table, Name: "classes" + suffix, KeyType: nftables.TypeClassID, KeyByteOrder: binaryutil.NativeEndian,
			IsMap: true, DataType: nftables.TypeVerdict,
		},
		servers:  set("servers", nftables.TypeClassID, frontend...),
		slots:    set("slots", backend, with(nftables.TypeClassID)...),
		picks:    set("picks", nftables.TypeClassID, with(nftables.TypeClassID)...),
		idle:     set("idle", nftables.SetDatatype{}, with(addr, nftables.TypeInetService)...),
		affinity: set("affinity", nftables.TypeClassID, append([]nftables.SetDatatype{addr}, frontend...)...),
	}
	s.servers.Counter = counts
	s.affinity.HasTimeout, s.affinity.Dynamic, s.affinity.Size = true, true, maxAffinityClients
	return s
}

func (t *table) setsOf(outside bool) *sets {
	if outside {
		return &t.sets[1]
	}
	return &t.sets[0]
}

// all returns the sets. A set comes before the sets that refer to it.
func (s *sets) all() []*nftables.Set {
	return []*nftables.Set{s.classes, s.servers, s.slots, s.picks, s.idle, s.affinity}
}

// chain is a chain with its rules.
type chain struct {
	*nftables.Chain
	rules [][]expr.Any
}

// jumpToClass sends packets to the chain of their server's class. It uses two maps, because the
// kernel walks through all elements of a map that leads to chains whenever one of them changes.
func (t *table) jumpToClass(outside bool) []expr.Any {
	return append(t.Frontend(netfilter.FirstRegister),
		&expr.Lookup{
			SourceRegister: netfilter.FirstRegister, DestRegister: netfilter.FirstRegister,
			SetName: t.setsOf(outside).servers.Name, IsDestRegSet: true,
		},
		note(netfilter.FirstRegister), &expr.Verdict{Kind: expr.VerdictGoto, Chain: dispatch(outside)})
}

// dispatch returns the name of the chain that sends packets with the number of a class to its chain.
func dispatch(outside bool) string {
	return map[bool]string{false: "dispatch", true: "dispatch-outside"}[outside]
}

func (t *table) dispatching(outside bool) chain {
	return chain{&nftables.Chain{Name: dispatch(outside), Table: t.Table}, [][]expr.Any{{
		noted(netfilter.FirstRegister),
		&expr.Lookup{SourceRegister: netfilter.FirstRegister, SetName: t.setsOf(outside).classes.Name, IsDestRegSet: true},
	}}}
}

// base returns the chains that every new connection passes.
func (t *table) base() []chain {
	inside := func(s *nftables.Set) []expr.Any {
		return []expr.Any{
			t.Source(8), &expr.Lookup{SourceRegister: 8, SetName: s.Name}, &expr.Verdict{Kind: expr.VerdictGoto, Chain: "inside"},
		}
	}
	hooked := func(name string, hook *nftables.ChainHook) *nftables.Chain {
		return &nftables.Chain{
			Name: name, Table: t.Table, Type: nftables.ChainTypeNAT, Hooknum: hook, Priority: nftables.ChainPriorityRef(priority),
		}
	}
	return []chain{
		t.dispatching(false), t.dispatching(true),
		{&nftables.Chain{Name: "inside", Table: t.Table}, [][]expr.Any{t.jumpToClass(false)}},
		{hooked("arriving", nftables.ChainHookPrerouting), [][]expr.Any{inside(t.pods), inside(t.nodes), t.jumpToClass(true), t.jumpToClass(false)}},
		{hooked("local", nftables.ChainHookOutput), [][]expr.Any{t.jumpToClass(false)}},
		{hooked("leaving", nftables.ChainHookPostrouting), [][]expr.Any{forget()}},
	}
}

// The keys and values of elements.

func (t *table) frontendKey(f plan.Frontend) []byte {
	b := make([]byte, 0, 48)
	b = append(b, f.Addr.Addr().AsSlice()...)
	b = append(b, byte(f.Protocol), 0, 0, 0)
	b = binary.BigEndian.AppendUint16(b, f.Addr.Port())
	return append(b, 0, 0)
}

func (t *table) backendKey(addr netip.AddrPort) []byte {
	b := make([]byte, 0, 20)
	b = append(b, addr.Addr().AsSlice()...)
	b = binary.BigEndian.AppendUint16(b, addr.Port())
	return append(b, 0, 0)
}

func (t *table) frontendOf(b []byte) (plan.Frontend, error) {
	n := int(t.AddrLen())
	if len(b) < n+8 {
		return plan.Frontend{}, fmt.Errorf("a key of %d bytes", len(b))
	}
	addr, _ := netip.AddrFromSlice(b[:n]) // the length is right
	return plan.Frontend{Addr: netip.AddrPortFrom(addr, binary.BigEndian.Uint16(b[n+4:])), Protocol: plan.Protocol(b[n])}, nil
}

func (t *table) backendOf(b []byte) (netip.AddrPort, error) {
	n := int(t.AddrLen())
	if len(b) < n+2 {
		return netip.AddrPort{}, fmt.Errorf("a backend of %d bytes", len(b))
	}
	addr, _ := netip.AddrFromSlice(b[:n]) // the length is right
	return netip.AddrPortFrom(addr, binary.BigEndian.Uint16(b[n:])), nil
}
