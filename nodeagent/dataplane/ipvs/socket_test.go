package ipvs

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"portolan.dev/nodeagent/dataplane/kernel"
	"portolan.dev/nodeagent/plan"
)

// imitation is a kernel that keeps virtual servers and can be made to fail.
type imitation struct {
	mu       sync.Mutex
	services map[serviceID]settings
	backends map[serviceID]map[netip.AddrPort]uint32
	sent     int // messages that arrived
	dialed   int

	// lose is the number of sends with lost answers, as with a full buffer.
	lose int
	// mute is the number of sends that are ignored and never answered.
	mute int
	// silent is the number of sends that are carried out and never answered.
	silent int
	// hang blocks the next send until it is closed.
	hang chan struct{}
	// interrupt is the number of dumps that report a change during the dump.
	interrupt int
	// refuse returns the error of a message.
	refuse func(r *request) error
}

func newImitation() *imitation {
	return &imitation{services: map[serviceID]settings{}, backends: map[serviceID]map[netip.AddrPort]uint32{}}
}

// socket returns a socket that is connected to the imitation. Its patience is short, but every
// answer that comes is sent at once.
func (k *imitation) socket(t *testing.T) *socket {
	s := &socket{patience: 50 * time.Millisecond, dial: func() (wire, error) {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.dialed++
		return &imitationWire{kernel: k}, nil
	}}
	if err := s.connect(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	return s
}

type imitationWire struct {
	kernel  *imitation
	answers [][]byte
	lost    bool
}

func (w *imitationWire) close() {}

func (w *imitationWire) receive(into []byte) (int, error) {
	switch {
	case w.lost:
		w.lost = false
		return 0, unix.ENOBUFS
	case len(w.answers) == 0:
		return 0, unix.EAGAIN
	}
	n := copy(into, w.answers[0])
	w.answers = w.answers[1:]
	return n, nil
}

func (w *imitationWire) send(b []byte) error {
	k := w.kernel
	k.mu.Lock()
	hang := k.hang
	k.hang = nil
	k.mu.Unlock()
	if hang != nil {
		<-hang
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.mute > 0 {
		k.mute--
		return nil
	}
	silent := k.silent > 0 && native.Uint16(b[4:]) != unix.GENL_ID_CTRL
	if silent {
		k.silent--
	}
	losing := k.lose > 0
	if losing {
		k.lose--
		w.lost = true
	}
	for len(b) > 0 {
		size := int(native.Uint32(b))
		answers := k.message(b[:size])
		if !losing && !silent {
			w.answers = append(w.answers, answers...)
		}
		b = b[(size+3)&^3:]
	}
	return nil
}

// message carries out one message and returns the answers.
func (k *imitation) message(b []byte) [][]byte {
	k.sent++
	family, flags, seq, cmd := native.Uint16(b[4:]), native.Uint16(b[6:]), native.Uint32(b[8:]), b[headerSize]
	body := b[headerSize+genericSize:]
	if family == unix.GENL_ID_CTRL {
		var e encoder
		e.number16(unix.CTRL_ATTR_FAMILY_ID, 77)
		return [][]byte{answer(77, seq, append([]byte{1, 1, 0, 0}, e.b...)), errorAnswer(seq, nil)}
	}
	var out [][]byte
	r, err := k.decode(cmd, body)
	if err == nil {
		out, err = k.carryOut(r, seq)
	}
	if flags&unix.NLM_F_DUMP == unix.NLM_F_DUMP && k.interrupt > 0 {
		k.interrupt--
		for _, b := range out {
			native.PutUint16(b[6:], unix.NLM_F_DUMP_INTR)
		}
	}
	if err != nil || flags&unix.NLM_F_ACK != 0 {
		out = append(out, errorAnswer(seq, err))
	}
	return out
}

func (k *imitation) decode(cmd uint8, body []byte) (*request, error) {
	r := &request{cmd: cmd}
	outer, err := parse(body)
	if err != nil {
		return nil, err
	}
	if outer[attrService] != nil {
		if r.id, r.set, _, err = parseService(body); err != nil {
			return nil, err
		}
	}
	if outer[attrDest] != nil {
		d, err := parseDestination(body, r.id.addr.Addr().Is4())
		if err != nil {
			return nil, err
		}
		r.backend, r.weight = d.addr, d.weight
	}
	if k.refuse != nil {
		return r, k.refuse(r)
	}
	return r, nil
}

func (k *imitation) carryOut(r *request, seq uint32) (out [][]byte, err error) {
	_, there := k.services[r.id]
	_, behind := k.backends[r.id][r.backend]
	switch {
	case r.cmd == cmdNewService && there, r.cmd == cmdNewDest && behind:
		return nil, unix.EEXIST
	case r.cmd != cmdNewService && !there:
		return nil, unix.ESRCH
	case (r.cmd == cmdSetDest || r.cmd == cmdDelDest) && !behind:
		return nil, unix.ENOENT
	}
	switch r.cmd {
	case cmdNewService:
		k.services[r.id], k.backends[r.id] = r.set, map[netip.AddrPort]uint32{}
	case cmdSetService:
		k.services[r.id] = r.set
	case cmdDelService:
		delete(k.services, r.id)
		delete(k.backends, r.id)
	case cmdNewDest, cmdSetDest:
		k.backends[r.id][r.backend] = r.weight
	case cmdDelDest:
		delete(k.backends[r.id], r.backend)
	case cmdGetService:
		e := encoder{b: []byte{cmdNewService, 1, 0, 0}}
		e.service(&request{id: r.id, set: k.services[r.id]})
		out = append(out, answer(77, seq, e.b))
	case cmdGetDest:
		for addr, weight := range k.backends[r.id] {
			e := encoder{b: []byte{cmdNewDest, 1, 0, 0}}
			e.destination(&request{cmd: cmdNewDest, backend: addr, weight: weight})
			out = append(out, answer(77, seq, e.b))
		}
	}
	return out, nil
}

func answer(kind uint16, seq uint32, body []byte) []byte {
	var e encoder
	e.u32(uint32(headerSize + len(body)))
	e.u16(kind)
	e.u16(0)
	e.u32(seq)
	e.u32(0)
	return append(e.b, body...)
}

func errorAnswer(seq uint32, err error) []byte {
	var code encoder
	var errno unix.Errno
	errors.As(err, &errno)
	code.u32(uint32(-int32(errno)))
	return answer(unix.NLMSG_ERROR, seq, code.b)
}

func idOf(n int) serviceID {
	return serviceID{netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 96, byte(n >> 8), byte(n)}), 80), plan.TCP}
}

func backendOf(n int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 64, byte(n >> 8), byte(n)}), 8080)
}

var plain = settings{scheduler: "rr"}

// manyRequests returns the requests for n servers with one backend each.
func manyRequests(n int) (out []request) {
	for i := range n {
		out = append(out, serviceRequest(cmdNewService, idOf(i), plain), destRequest(cmdNewDest, idOf(i), backendOf(i), 3))
	}
	return out
}

func (k *imitation) complete(t *testing.T, n int, except ...int) {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range n {
		weight, ok := k.backends[idOf(i)][backendOf(i)]
		if want := !slices.Contains(except, i); ok != want || want && weight != 3 {
			t.Errorf("server %d: %t, weight %d", i, ok, weight)
		}
	}
}

func none(t *testing.T, errs []error) {
	t.Helper()
	for i, err := range errs {
		if err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
	}
}

// TestErrorsBelongToTheirMessages checks that each error is matched to its message, that failed
// requests are tried once more, and that all others are carried out.
func TestErrorsBelongToTheirMessages(t *testing.T) {
	const n = 2000 // several loads, the last one not full
	k := newImitation()
	tries := map[serviceID]int{}
	bad := []int{0, 31, 32, 700, 1999}
	k.refuse = func(r *request) error {
		if r.cmd != cmdNewService {
			return nil
		}
		tries[r.id]++
		switch {
		case r.id == idOf(500) && tries[r.id] == 1:
			return unix.ENOMEM // succeeds at the second try
		case slices.ContainsFunc(bad, func(i int) bool { return r.id == idOf(i) }):
			return unix.EPERM
		}
		return nil
	}
	errs := k.socket(t).do(manyRequests(n))
	for i, err := range errs {
		refused := slices.Contains(bad, i/2)
		switch {
		case refused && i%2 == 0 && !errors.Is(err, unix.EPERM), refused && i%2 == 1 && !errors.Is(err, unix.ESRCH), !refused && err != nil:
			t.Errorf("request %d: %v", i, err)
		}
	}
	k.complete(t, n, bad...)
	if k.sent > 2*n+2*len(bad)+3 { // including the family's name, and the second try that succeeds
		t.Errorf("%d messages", k.sent)
	}
}

// TestLostAnswers checks that the results of requests are found out if their answers are lost in a
// full buffer, and that servers of other programs do not change.
func TestLostAnswers(t *testing.T) {
	k := newImitation()
	s := k.socket(t)
	k.services[idOf(7)], k.backends[idOf(7)] = plain, map[netip.AddrPort]uint32{backendOf(1000): 1}
	k.services[idOf(8)], k.backends[idOf(8)] = settings{scheduler: "lc"}, map[netip.AddrPort]uint32{}
	k.lose = 3
	errs := s.do(manyRequests(300))
	for i, err := range errs {
		if foreign := i == 2*7 || i == 2*8; foreign != errors.Is(err, unix.EEXIST) || !foreign && err != nil {
			t.Errorf("request %d: %v", i, err)
		}
	}
	k.complete(t, 300)
	k.lose = 1
	none(t, s.do([]request{destRequest(cmdDelDest, idOf(1), backendOf(1), 0)}))
	k.lose = 1
	none(t, s.do([]request{deleteService(idOf(1))}))
	k.complete(t, 300, 1)
}

// TestListsThatChangeAreReadAgain checks that a list that changed during the read is read again,
// and that a list that keeps changing is an error.
func TestListsThatChangeAreReadAgain(t *testing.T) {
	k := newImitation()
	s := k.socket(t)
	none(t, s.do(manyRequests(1)))
	k.interrupt = 1
	if list, err := s.destinations(idOf(0)); err != nil || len(list) != 1 || list[0].addr != backendOf(0) {
		t.Errorf("changed once: %v, %v", list, err)
	}
	k.interrupt = 100
	if list, err := s.destinations(idOf(0)); !errors.Is(err, errInterrupted) {
		t.Errorf("changes all the time: %v, %v", list, err)
	}
	if left := k.interrupt; left == 0 || left == 100 {
		t.Errorf("%d of 100 changes are left", left)
	}
}

// TestStalledSocketIsReplaced checks that a socket that does not answer is replaced, and that its
// requests are tried again.
func TestStalledSocketIsReplaced(t *testing.T) {
	k := newImitation()
	s := k.socket(t)
	k.mute = 1
	none(t, s.do(manyRequests(1000)))
	k.complete(t, 1000)
	if k.dialed != 2 {
		t.Errorf("dialed %d times", k.dialed)
	}
}

// TestHangingKernel checks that the caller gets an error while the kernel does not return from a
// call, that no further call is made that would hang, and that requests succeed again afterwards.
func TestHangingKernel(t *testing.T) {
	k := newImitation()
	s := k.socket(t)
	hang := make(chan struct{})
	k.mu.Lock()
	k.hang = hang
	k.mu.Unlock()
	for range 2 {
		for i, err := range s.do(manyRequests(600)) {
			if !errors.Is(err, errStalled) {
				t.Fatalf("request %d: %v", i, err)
			}
		}
	}
	if _, err := s.destinations(idOf(0)); !errors.Is(err, errStalled) {
		t.Errorf("reading: %v", err)
	}
	k.mu.Lock()
	dialed := k.dialed
	k.mu.Unlock()
	if dialed != 1 {
		t.Errorf("dialed %d times", dialed)
	}
	close(hang)
	<-s.stuck.over
	for i, err := range s.do(manyRequests(600)) {
		if err != nil && !errors.Is(err, unix.EEXIST) { // the call that hung was carried out in the end
			t.Fatalf("request %d: %v", i, err)
		}
	}
	k.complete(t, 600)
}

// balancer returns a balancer on the imitation.
func (k *imitation) balancer(t *testing.T) *balancer {
	return &balancer{sock: k.socket(t), missing: map[string]bool{}, unsure: map[serviceID]settings{}}
}

// op returns an operation on the server of idOf(n).
func op(kind kernel.OpKind, n int) kernel.Op {
	at := plan.Frontend{Addr: idOf(n).addr, Protocol: plan.TCP}
	return kernel.Op{Kind: kind, ID: kernel.ID{Frontend: at, For: at}, Settings: kernel.Settings{Scheduler: "rr"}, Backend: backendOf(n), Weight: 3}
}

// TestForeignServersGetNoBackends checks that a server of another program never gets our backends,
// not even for a moment.
func TestForeignServersGetNoBackends(t *testing.T) {
	k := newImitation()
	b := k.balancer(t)
	k.services[idOf(1)], k.backends[idOf(1)] = plain, map[netip.AddrPort]uint32{}
	touched := false
	k.refuse = func(r *request) error {
		touched = touched || r.id == idOf(1) && r.cmd != cmdNewService && r.cmd != cmdGetService && r.cmd != cmdGetDest
		return nil
	}
	var ops []kernel.Op
	for n := range 3 {
		ops = append(ops, op(kernel.AddServer, n), op(kernel.AddBackend, n))
	}
	for i, err := range b.Apply(ops) {
		if foreign := i/2 == 1; foreign != errors.Is(err, kernel.ErrForeign) || !foreign && err != nil {
			t.Errorf("operation %d: %v", i, err)
		}
	}
	k.complete(t, 3, 1)
	if touched {
		t.Error("the foreign server was touched")
	}
}

// TestServersOfUnknownFate checks that a server is found again if the request that added it was
// never answered. If it is ours it is used or removed, and if it belongs to another program it does
// not change.
func TestServersOfUnknownFate(t *testing.T) {
	k := newImitation()
	b := k.balancer(t)
	const made, foreign, never, unmade = 1, 2, 3, 4
	k.services[idOf(foreign)], k.backends[idOf(foreign)] = settings{scheduler: "lc"}, map[netip.AddrPort]uint32{}
	unknown := func(n int) {
		t.Helper()
		k.silent = 2 // for the second try too
		if errs := b.Apply([]kernel.Op{op(kernel.AddServer, n)}); !errors.Is(errs[0], kernel.ErrUnknown) {
			t.Fatalf("server %d: %v", n, errs[0])
		}
	}
	unknown(made)
	unknown(foreign)
	k.silent = 1 // for the query too: the result stays unknown, and the server is not removed
	if errs := b.Apply([]kernel.Op{op(kernel.DeleteServer, foreign)}); !errors.Is(errs[0], kernel.ErrUnknown) {
		t.Errorf("foreign, unread: %v", errs[0])
	}
	none(t, b.Apply([]kernel.Op{op(kernel.AddServer, made), op(kernel.AddBackend, made)}))
	if k.backends[idOf(made)][backendOf(made)] != 3 {
		t.Errorf("backends %v", k.backends[idOf(made)])
	}
	if errs := b.Apply([]kernel.Op{op(kernel.AddServer, foreign), op(kernel.AddBackend, foreign)}); !errors.Is(errs[0], kernel.ErrForeign) {
		t.Errorf("foreign: %v", errs[0])
	}
	unknown(foreign)
	none(t, b.Apply([]kernel.Op{op(kernel.DeleteServer, foreign)}))
	if k.services[idOf(foreign)].scheduler != "lc" || len(k.backends[idOf(foreign)]) > 0 {
		t.Errorf("the foreign server is %v with %v", k.services[idOf(foreign)], k.backends[idOf(foreign)])
	}
	unknown(unmade)
	none(t, b.Apply([]kernel.Op{op(kernel.DeleteServer, unmade)}))
	unknown(never)
	k.mu.Lock()
	delete(k.services, idOf(never)) // as if it had never been there
	k.mu.Unlock()
	none(t, b.Apply([]kernel.Op{op(kernel.AddServer, never)}))
	if _, ok := k.services[idOf(never)]; !ok {
		t.Error("it was not added")
	}
	if _, ok := k.services[idOf(unmade)]; ok || len(b.unsure) > 0 {
		t.Errorf("not removed, or still unknown: %v", b.unsure)
	}
}

func TestMessagesSurviveTheRoundTrip(t *testing.T) {
	k := newImitation()
	s := k.socket(t)
	for _, id := range []serviceID{
		idOf(1), {netip.MustParseAddrPort("[fd00:96::1]:65535"), plan.UDP}, {netip.MustParseAddrPort("192.0.2.1:1"), plan.SCTP},
	} {
		set := settings{scheduler: "sh", flags: flagPersistent | flagFallback, timeout: 10800}
		none(t, s.do([]request{serviceRequest(cmdNewService, id, set)}))
		if got, err := s.service(id); err != nil || got != set {
			t.Errorf("%s: %v, %v", id, got, err)
		}
		set.scheduler = "nq"
		backend := netip.AddrPortFrom(id.addr.Addr().Next(), 4711)
		none(t, s.do([]request{serviceRequest(cmdSetService, id, set), destRequest(cmdNewDest, id, backend, 7), destRequest(cmdSetDest, id, backend, 9)}))
		list, err := s.destinations(id)
		if err != nil || fmt.Sprint(list) != fmt.Sprint([]destination{{addr: backend, weight: 9}}) {
			t.Errorf("%s: %v, %v", id, list, err)
		}
		if got, err := s.service(id); err != nil || got != set {
			t.Errorf("%s: %v, %v", id, got, err)
		}
	}
}
