package nftables

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"portolan.dev/nodeagent/dataplane/kernel"
	"portolan.dev/nodeagent/plan"
)

// flagPort makes the hash of a client include its source port.
const flagPort = 1

// lanes is the maximum number of chains of a round-robin class. The servers in a lane share a
// counter, so two servers that are used alternately would each get every other number only.
const lanes = 64

// hashSeed is constant, so that all nodes hash alike.
const hashSeed = 0x706f7274

// deleteOp is the nftables operation that removes an element from a set while a packet passes.
const deleteOp = 2

// class is the set of properties that servers in the same chain have in common.
type class struct {
	kernel.Settings
	slots   int
	outside bool // for external clients only
	lane    int
}

// chain returns the name of the class's chain. parseClass parses it.
func (c class) chain() string {
	audience := map[bool]string{false: "any", true: "outside"}[c.outside]
	state := map[bool]string{false: "open", true: "closed"}[c.Closed]
	return fmt.Sprintf("%s-%d-%d-%d-%s-%s-%d", c.Scheduler, c.Flags, c.slots, c.Affinity/time.Second, audience, state, c.lane)
}

func parseClass(chain string) (class, error) {
	part := strings.Split(chain, "-")
	var number [7]uint64
	ok := len(part) == len(number)
	for _, i := range []int{1, 2, 3, 6} {
		if ok {
			var err error
			number[i], err = strconv.ParseUint(part[i], 10, 31)
			ok = err == nil
		}
	}
	if ok {
		c := class{
			Settings: kernel.Settings{
				Scheduler: part[0], Flags: uint32(number[1]), Affinity: time.Duration(number[3]) * time.Second, Closed: part[5] == "closed",
			},
			slots: int(number[2]), outside: part[4] == "outside", lane: int(number[6]),
		}
		if c.chain() == chain {
			return c, nil
		}
	}
	return class{}, fmt.Errorf("chain %q is not ours", chain)
}

// withoutLane returns the class without its lane.
func (c class) withoutLane() class {
	c.lane = 0
	return c
}

// hasCounter reports whether the chain of the class has a counter.
func (c class) hasCounter() bool { return c.Scheduler == plan.RoundRobin.String() && c.slots > 1 }

// sticky reports whether the class has client affinity.
func (c class) sticky() bool { return c.Affinity > 0 }

// registers are the numbers of the registers that hold the parts of a key while a packet passes.
type registers struct{ client, frontend, index, backend, end uint32 }

func (t *table) registers(sticky bool) registers {
	words := t.AddrLen() / 4
	r := registers{client: 8, frontend: 8}
	if sticky {
		r.frontend += words
	}
	r.index = r.frontend + words + 2
	r.backend = r.index + 1
	r.end = r.backend + words
	return r
}

// rules returns the rules of a class's chain. The number of slots is fixed by the class. The
// backend in each slot is an element of a map.
func (t *table) rules(c class) [][]expr.Any {
	switch {
	case c.Closed && c.outside: // all clients use the server for AnyClient
		return [][]expr.Any{t.jumpToClass(false)}
	case c.slots == 0: // there are no backends, so the packet filter refuses
		return [][]expr.Any{{&expr.Verdict{Kind: expr.VerdictAccept}}}
	}
	sets := t.setsOf(c.outside)
	r := t.registers(c.sticky())
	plain := append(t.choose(c, r), t.translate(r.backend))
	if !c.sticky() {
		return [][]expr.Any{plain}
	}
	remembered := r.index // the index is unused here, so its register is free
	recall := append(t.load(c, r),
		&expr.Lookup{SourceRegister: r.client, DestRegister: remembered, IsDestRegSet: true, SetName: sets.affinity.Name})
	update := func(op, data uint32) expr.Any {
		return &expr.Dynset{SrcRegKey: r.client, SrcRegData: data, SetName: sets.affinity.Name, Operation: op, Timeout: c.Affinity}
	}
	back := append(append([]expr.Any{}, recall...),
		&expr.Lookup{SourceRegister: r.frontend, SetName: sets.live.Name},
		update(unix.NFT_DYNSET_OP_UPDATE, remembered), t.translate(remembered))
	forget := append(append([]expr.Any{}, recall...), update(deleteOp, remembered))
	anew := append(t.choose(c, r), update(unix.NFT_DYNSET_OP_UPDATE, r.backend), t.translate(r.backend))
	return [][]expr.Any{back, forget, anew, plain} // the last rule applies if the affinity set is full
}

// load loads the parts of the lookup key into registers.
func (t *table) load(c class, r registers) []expr.Any {
	var out []expr.Any
	if c.sticky() {
		out = append(out, t.Source(r.client))
	}
	return append(out, t.Frontend(r.frontend)...)
}

// choose picks one of the slots and looks up its backend.
func (t *table) choose(c class, r registers) []expr.Any {
	out := t.load(c, r)
	slots := uint32(c.slots)
	switch {
	case slots == 1:
		out = append(out, &expr.Immediate{Register: r.index, Data: native(0)})
	case c.hasCounter():
		out = append(out, &expr.Numgen{Register: r.index, Modulus: slots, Type: unix.NFT_NG_INCREMENTAL})
	case c.Scheduler == plan.DestinationHash.String():
		out = append(out, &expr.Hash{
			SourceRegister: r.frontend, DestRegister: r.index, Length: t.AddrLen(), Modulus: slots, Seed: hashSeed, Type: expr.HashTypeJenkins,
		})
	default: // hash the source, in the registers that will later hold the backend
		length := t.AddrLen()
		out = append(out, t.Source(r.backend))
		if c.Flags&flagPort != 0 {
			out = append(out, &expr.Payload{DestRegister: r.end, Base: expr.PayloadBaseTransportHeader, Offset: 0, Len: 2})
			length += 4
		}
		out = append(out, &expr.Hash{
			SourceRegister: r.backend, DestRegister: r.index, Length: length, Modulus: slots, Seed: hashSeed, Type: expr.HashTypeJenkins,
		})
	}
	return append(out, &expr.Lookup{SourceRegister: r.frontend, DestRegister: r.backend, IsDestRegSet: true, SetName: t.setsOf(c.outside).slots.Name})
}

// translate sends the connection to the backend in the registers that begin at register.
func (t *table) translate(register uint32) expr.Any {
	return &expr.NAT{
		Type: expr.NATTypeDestNAT, Family: uint32(t.Family), RegAddrMin: register, RegProtoMin: register + t.AddrLen()/4,
	}
}

func native(v uint32) []byte { return binary.NativeEndian.AppendUint32(nil, v) }
