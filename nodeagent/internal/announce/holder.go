package announce

import (
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	loadbalancerv1 "portolan.dev/api/loadbalancer/v1"
)

// Holder holds the node's rights to announce addresses. It is safe for concurrent use.
type Holder struct {
	clock    func() time.Duration // since an arbitrary time; includes the time in which the machine was suspended
	instance string
	serves   func(netip.Addr) bool // whether a proxy on the node serves an address

	mu        sync.Mutex
	sequence  uint64                   // of the last message on the stream
	followed  uint64                   // of the last answer on the stream
	sent      map[uint64]time.Duration // by sequence: the times of the last answered message and of later ones
	deadline  time.Duration            // when all rights end; 0: there were none
	addresses map[netip.Addr]right     // of the last answer
	withdrawn []netip.Addr             // given up since Withdraw was last called
	refused   []netip.Addr             // in answers since then, and not taken

	handOvers   []handOver // of the last answer, which came at handOversAt
	handOversAt time.Duration
}

// right is the right to announce an address.
type right struct {
	since   time.Time
	proxied bool // valid only while the proxy serves the address
}

// NewHolder returns a holder without rights. instance is the random name of the process.
func NewHolder(clock func() time.Duration, instance string, serves func(netip.Addr) bool) *Holder {
	return &Holder{clock: clock, instance: instance, serves: serves, addresses: map[netip.Addr]right{}}
}

// Begin begins a stream. The caller must not follow answers of an earlier stream any more. Rights stay until
// they end.
func (h *Holder) Begin() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sequence, h.followed, h.sent = 0, 0, map[uint64]time.Duration{}
}

// Message returns the next message of the stream. It has the addresses that the node may announce now or, if
// the rights have ended, could announce before. The caller sends it after the call, because the rights of its
// answer count from the call.
func (h *Holder) Message(s State) *loadbalancerv1.AnnounceRequest {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.clock()
	h.withdraw()
	h.sequence++
	h.sent[h.sequence] = now
	m := &loadbalancerv1.AnnounceRequest{
		Node: s.Node, Instance: h.instance, Sequence: h.sequence, FollowedAnswer: h.followed,
		States: s.states(), Served: texts(s.Served), Kept: texts(s.Kept),
		// An lbctl of an earlier release reads these.
		Ready: s.Ready, Draining: s.Draining, Restarting: s.Restarting, ForwardsAlone: s.Stays, AwaitsProxy: s.AwaitsProxy,
	}
	for _, p := range s.Subnets {
		m.Subnets = append(m.Subnets, p.String())
	}
	listed := &m.Addresses
	if now >= h.deadline && len(h.addresses) > 0 {
		listed, m.FormerSince = &m.FormerAddresses, durationpb.New(now-h.deadline)
	}
	*listed = texts(slices.SortedFunc(maps.Keys(h.addresses), netip.Addr.Compare))
	for _, o := range h.handOversLocked(now) {
		m.HandOvers = append(m.HandOvers, o.message())
	}
	return m
}

// Follow takes an answer of the stream. It returns the addresses that the node may announce from now on
// (began), and those addresses that it may not announce any more (ended). Addresses that cannot be parsed are
// not announced. refused reports whether the answer has an address that the proxy no longer serves. lbctl
// does not give it to another node before the next message.
func (h *Holder) Follow(answer *loadbalancerv1.AnnounceResponse, at time.Time) (began, ended []netip.Addr, refused bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.followed = answer.GetSequence()
	sent, ok := h.sent[answer.GetAnsweredMessage()]
	if !ok { // the greeting, or an answer to no message
		return nil, nil, false
	}
	maps.DeleteFunc(h.sent, func(sequence uint64, _ time.Duration) bool { return sequence < answer.GetAnsweredMessage() })
	now := h.clock()
	before := h.heldLocked(now)
	h.deadline = sent + answer.GetValidity().AsDuration()
	h.followHandOvers(now, answer)
	earlier := h.addresses
	h.addresses = make(map[netip.Addr]right, len(answer.GetAddresses()))
	for _, text := range answer.GetAddresses() {
		addr, err := netip.ParseAddr(text)
		if err != nil {
			continue
		}
		r := right{since: at, proxied: slices.Contains(answer.GetProxied(), text)}
		if slices.Contains(before, addr) {
			r.since = earlier[addr].since
		}
		if r.proxied && !h.serves(addr) {
			refused = true
			h.refused = append(h.refused, addr)
			continue
		}
		h.addresses[addr] = r
	}
	after := h.heldLocked(now)
	return without(after, before), without(before, after), refused
}

// Drop ends all rights at once.
func (h *Holder) Drop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.addresses = map[netip.Addr]right{}
}

// Withdraw gives up the rights to addresses that the proxy no longer serves. It returns the addresses that
// were given up since its last call, and the addresses in answers that were refused since then. If the proxy
// serves an address again, the node needs a new answer, because lbctl may have given it to another node.
func (h *Holder) Withdraw() (withdrawn, refused []netip.Addr) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.withdraw()
	withdrawn, refused = h.withdrawn, h.refused
	h.withdrawn, h.refused = nil, nil
	return withdrawn, refused
}

func (h *Holder) withdraw() {
	for addr, r := range h.addresses {
		if r.proxied && !h.serves(addr) {
			delete(h.addresses, addr)
			h.withdrawn = append(h.withdrawn, addr)
		}
	}
}

// Send calls send, which sends one packet, if the node may announce the address at this moment. It reports
// whether it called send. The right cannot end during the call: an answer that ends it is followed afterwards,
// and so lbctl cannot give the address to another node while a packet of this one is still on its way to the
// kernel. On a busy machine that took 100 ms.
func (h *Holder) Send(addr netip.Addr, send func() error) (may bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r, ok := h.addresses[addr]
	if !ok || h.clock() >= h.deadline || r.proxied && !h.serves(addr) {
		return false, nil
	}
	return true, send()
}

// Held returns the addresses that the node may announce now, ordered.
func (h *Holder) Held() []netip.Addr {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.heldLocked(h.clock())
}

func (h *Holder) heldLocked(now time.Duration) []netip.Addr {
	if now >= h.deadline {
		return nil
	}
	return slices.SortedFunc(maps.Keys(h.addresses), netip.Addr.Compare)
}

// Since returns the time since which an address of the last answer is held.
func (h *Holder) Since(addr netip.Addr) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.addresses[addr].since
}

// Left returns the time until the rights end, which is negative if they have ended. ok is false if there were
// no rights yet.
func (h *Holder) Left() (left time.Duration, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.deadline - h.clock(), h.deadline > 0
}

// texts returns addresses as they are in a message.
func texts(addrs []netip.Addr) []string {
	var all []string
	for _, addr := range addrs {
		all = append(all, addr.String())
	}
	return all
}

// without returns the addresses of a that are not in b. Both are ordered.
func without(a, b []netip.Addr) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(a), func(addr netip.Addr) bool {
		_, found := slices.BinarySearchFunc(b, addr, netip.Addr.Compare)
		return found
	})
}
