package ipvs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"portolan.dev/nodeagent/dataplane/host"
	"portolan.dev/nodeagent/dataplane/kernel"
)

const (
	// batchSize is the number of messages in one send. It achieves most of the gain, and the
	// answers still fit into the socket's buffer.
	batchSize = 64
	// loadSize is the number of messages that are encoded while the kernel works on the previous
	// ones.
	loadSize = 8 * batchSize
	// stalled is the longest time that the kernel may take for an answer.
	stalled = 10 * time.Second

	headerSize  = unix.NLMSG_HDRLEN
	genericSize = unix.GENL_HDRLEN
)

var native = binary.NativeEndian

var (
	// errStalled is the error for answers that the kernel has not sent in time.
	errStalled = errors.New("the kernel does not answer on its IPVS socket")
	// errUnknown is the error of a message with an unknown result, because answers were lost.
	errUnknown = errors.New("the kernel's answer was lost")
	// errInterrupted is the error of a dump if the data changed during the dump.
	errInterrupted = errors.New("changed while it was read")
)

// socket speaks the kernel's IPVS protocol. It reopens its line if the kernel does not answer. It
// is not safe for concurrent use.
type socket struct {
	dial     func() (wire, error)
	patience time.Duration // longest wait for the kernel
	netns    *os.File      // the namespace, for reopening; nil: dial does not need it

	line   *line // nil: not open
	stuck  *line // abandoned, but its goroutine is still in a call to the kernel
	family uint16
	seq    uint32
	loads  [2]*load
}

// openSocket opens a socket in the network namespace of the calling thread.
func openSocket() (*socket, error) {
	netns, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return nil, err
	}
	s := &socket{patience: stalled, netns: netns}
	s.dial = func() (w wire, err error) {
		err = host.Within(fmt.Sprintf("/proc/self/fd/%d", netns.Fd()), func() (err error) {
			w, err = dialKernel(stalled)
			return err
		})
		return w, err
	}
	if err := s.connect(); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// connect opens the line if there is none.
func (s *socket) connect() error {
	if s.line != nil {
		return nil
	}
	if s.stuck != nil && !s.stuck.gone() { // a new line would hang too
		return errStalled
	}
	w, err := s.dial()
	if err != nil {
		return err
	}
	s.line, s.stuck = newLine(w), nil
	return s.findFamily()
}

// findFamily gets the number of the kernel's IPVS netlink family.
func (s *socket) findFamily() error {
	var name encoder
	name.text(unix.CTRL_ATTR_FAMILY_NAME, "IPVS")
	s.family = unix.GENL_ID_CTRL
	found := uint16(0)
	err := s.ask(request{cmd: unix.CTRL_CMD_GETFAMILY, body: name.b}, 0, func(body []byte) error {
		in, err := parse(body)
		found = uint16(number(in[unix.CTRL_ATTR_FAMILY_ID]))
		return err
	})
	if err != nil || found == 0 {
		s.hangUp()
		return fmt.Errorf("the kernel has no IPVS (module ip_vs): %w", errors.Join(err, unix.ENOPROTOOPT))
	}
	s.family = found
	return nil
}

func (s *socket) hangUp() {
	if s.line != nil {
		s.line.hangUp()
		s.line = nil
	}
}

func (s *socket) close() {
	s.hangUp()
	if s.netns != nil {
		s.netns.Close()
	}
}

// giveUp abandons the line because the kernel does not answer on it.
func (s *socket) giveUp() {
	s.stuck = s.line
	s.hangUp()
	s.loads = [2]*load{} // the abandoned goroutine may still use them
}

// await waits for a job of the line. It returns errStalled if the kernel does not answer. If the
// job does not even end, it continues in the background, and its data must not be used any more.
func (s *socket) await(done <-chan error) error {
	watchdog := time.NewTimer(3 * s.patience)
	defer watchdog.Stop()
	select {
	case err := <-done:
		if errors.Is(err, errStalled) {
			s.hangUp() // a late answer would be taken for the answer to another request
		}
		return err
	case <-watchdog.C:
		s.giveUp()
		return errStalled
	}
}

// load is a run of messages with their results.
type load struct {
	encoder
	ends  []int // ends of the batches
	first uint32
	errs  []error
	done  chan error
}

// encode fills the load with requests. Only the last message of a batch requests an answer, because
// errors are always reported and the kernel answers in order.
func (l *load) encode(requests []request, family uint16, seq uint32) {
	l.b, l.ends, l.first = l.b[:0], l.ends[:0], seq
	l.errs = append(l.errs[:0], make([]error, len(requests))...)
	for i := range requests {
		last := (i+1)%batchSize == 0 || i == len(requests)-1
		flags := uint16(unix.NLM_F_REQUEST)
		if last {
			flags |= unix.NLM_F_ACK
		}
		l.message(&requests[i], family, flags, seq+uint32(i))
		if last {
			l.ends = append(l.ends, len(l.b))
		}
	}
}

// run sends the load, batch by batch.
func (l *load) run(x *exchange) {
	from := 0
	for i, end := range l.ends {
		errs := l.errs[i*batchSize : min((i+1)*batchSize, len(l.errs))]
		err := x.send(l.b[from:end])
		if err == nil {
			err = x.answers(l.first+uint32(i*batchSize), errs)
		}
		if errors.Is(err, errStalled) { // the following batches were not sent
			errs = l.errs[i*batchSize:]
		}
		for k := range errs {
			if err != nil && errs[k] == nil {
				errs[k] = err
			}
		}
		if errors.Is(err, errStalled) {
			l.done <- err
			return
		}
		from = end
	}
	l.done <- nil
}

// do sends requests and returns the error of each. Failed requests are tried once more in order,
// without the others, because one of the others may have caused the failure. If answers were lost,
// do finds out whether the kernel carried out the requests.
func (s *socket) do(requests []request) []error {
	errs := make([]error, len(requests))
	s.send(requests, errs)
	var again []int
	for i, err := range errs {
		if err != nil && (len(requests) > 1 || lost(err)) {
			again = append(again, i)
		}
	}
	if len(again) == 0 {
		return errs
	}
	some, results := make([]request, len(again)), make([]error, len(again))
	for k, i := range again {
		some[k] = requests[i]
	}
	s.send(some, results)
	for k, i := range again {
		if lost(errs[i]) {
			results[k] = s.findOut(requests, i, results[k])
		}
		errs[i] = results[k]
	}
	return errs
}

// lost reports whether a request may have been carried out in spite of its error.
func lost(err error) bool { return errors.Is(err, errUnknown) || errors.Is(err, errStalled) }

// send sends requests in loads. It encodes a load while the kernel works on the previous one.
func (s *socket) send(requests []request, errs []error) {
	if err := s.connect(); err != nil {
		fill(errs, fmt.Errorf("%w: %w", errStalled, err))
		return
	}
	var before *load
	var results []error // of the previous load
	for n := 0; len(requests) > 0; n++ {
		size := min(loadSize, len(requests))
		l := s.load(n % len(s.loads))
		l.encode(requests[:size], s.family, s.seq+1)
		s.seq += uint32(size)
		if !s.finish(before, results) {
			fill(errs, errStalled)
			return
		}
		s.line.jobs <- l.run
		before, results = l, errs[:size]
		requests, errs = requests[size:], errs[size:]
	}
	s.finish(before, results)
}

// finish waits for a load and reports whether the line can be used for more.
func (s *socket) finish(l *load, results []error) bool {
	if l == nil {
		return true
	}
	err := s.await(l.done)
	if s.line == nil && s.stuck != nil && !s.stuck.gone() {
		fill(results, err) // the abandoned goroutine still uses the load
		return false
	}
	copy(results, l.errs)
	return err == nil
}

func fill(errs []error, err error) {
	for i := range errs {
		errs[i] = err
	}
}

func (s *socket) load(i int) *load {
	if s.loads[i] == nil {
		s.loads[i] = &load{done: make(chan error, 1)}
	}
	return s.loads[i]
}

// done reports whether an error means that there was nothing to do.
func done(cmd uint8, err error) bool {
	switch cmd {
	case cmdNewService, cmdNewDest:
		return errors.Is(err, unix.EEXIST)
	case cmdDelService, cmdDelDest:
		return errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ENOENT)
	}
	return false
}

// findOut returns the result of a request if its first answer was lost, from the error of the
// second try. A virtual server that exists may belong to another program. Ours has the settings and
// only the backends of these requests.
func (s *socket) findOut(requests []request, i int, err error) error {
	r := &requests[i]
	switch {
	case !done(r.cmd, err):
		return err
	case r.cmd != cmdNewService:
		return nil
	}
	found, unread := s.service(r.id)
	var list []destination
	if unread == nil {
		list, unread = s.destinations(r.id)
	}
	switch {
	case unread != nil:
		return fmt.Errorf("%w: %w", errUnknown, unread)
	case found != r.set:
		return err
	}
	for _, d := range list {
		ours := slices.ContainsFunc(requests, func(o request) bool {
			return o.cmd == cmdNewDest && o.id == r.id && o.backend == d.addr
		})
		if !ours {
			return err
		}
	}
	return nil
}

// dump reads a list. It starts again if the list changed during the read.
func (s *socket) dump(r request, start func(), fn func(body []byte) error) error {
	for range 5 {
		start()
		err := s.ask(r, unix.NLM_F_DUMP, fn)
		if !errors.Is(err, errInterrupted) && !errors.Is(err, errUnknown) {
			return err
		}
	}
	return errInterrupted
}

// ask sends one request and passes the attributes of each answer to fn, which must not keep them.
func (s *socket) ask(r request, flags uint16, fn func(body []byte) error) error {
	if err := s.connect(); err != nil {
		return err
	}
	s.seq++
	want := s.seq
	var e encoder
	e.message(&r, s.family, unix.NLM_F_REQUEST|unix.NLM_F_ACK|flags, want)
	listener := &listener{fn: fn}
	answered := make(chan error, 1)
	s.line.jobs <- func(x *exchange) { answered <- x.ask(e.b, want, listener.hear) }
	err := s.await(answered)
	listener.leave()
	var answer unix.Errno
	if err != nil && !errors.As(err, &answer) { // more answers may be on their way
		s.hangUp()
	}
	return err
}

// listener passes answers on until it leaves, possibly before the kernel has sent all of them.
type listener struct {
	mu   sync.Mutex
	left bool
	fn   func(body []byte) error
}

func (l *listener) hear(body []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.left {
		return errStalled
	}
	return l.fn(body)
}

func (l *listener) leave() {
	l.mu.Lock()
	l.left = true
	l.mu.Unlock()
}

func (x *exchange) ask(message []byte, want uint32, fn func(body []byte) error) error {
	if err := x.send(message); err != nil {
		return os.NewSyscallError("sendto", err)
	}
	interrupted := false
	err := x.each(func(kind, flags uint16, seq uint32, body []byte) (bool, error) {
		if seq != want {
			return false, nil
		}
		interrupted = interrupted || flags&unix.NLM_F_DUMP_INTR != 0
		switch kind {
		case unix.NLMSG_ERROR, unix.NLMSG_DONE:
			return true, errnoIn(body)
		}
		if len(body) < genericSize {
			return true, errors.New("netlink message without a header")
		}
		return false, fn(body[genericSize:])
	})
	if err == nil && interrupted {
		return errInterrupted
	}
	return err
}

// services reads all virtual servers of the kernel.
func (s *socket) services() (map[serviceID]settings, error) {
	var out map[serviceID]settings
	err := s.dump(request{cmd: cmdGetService}, func() { out = map[serviceID]settings{} }, func(body []byte) error {
		id, set, ok, err := parseService(body)
		if ok {
			out[id] = set
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read virtual servers: %w", err)
	}
	return out, nil
}

// traffic reads the counters of all virtual servers of the kernel.
func (s *socket) traffic() (map[serviceID]kernel.Traffic, error) {
	var out map[serviceID]kernel.Traffic
	err := s.dump(request{cmd: cmdGetService}, func() { out = map[serviceID]kernel.Traffic{} }, func(body []byte) error {
		id, t, ok, err := parseTraffic(body)
		if ok {
			out[id] = t
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read traffic of virtual servers: %w", err)
	}
	return out, nil
}

// service reads the settings of one virtual server.
func (s *socket) service(id serviceID) (settings, error) {
	var out settings
	err := s.ask(request{cmd: cmdGetService, id: id}, 0, func(body []byte) (err error) {
		_, out, _, err = parseService(body)
		return err
	})
	if err != nil {
		return settings{}, fmt.Errorf("read virtual server %s: %w", id, err)
	}
	return out, nil
}

// destinations reads the backends of a virtual server. If the server does not exist, the list is
// empty.
func (s *socket) destinations(id serviceID) ([]destination, error) {
	var out []destination
	err := s.dump(request{cmd: cmdGetDest, id: id}, func() { out = nil }, func(body []byte) error {
		d, err := parseDestination(body, id.addr.Addr().Is4())
		out = append(out, d)
		return err
	})
	if err != nil && !errors.Is(err, unix.ESRCH) {
		return nil, fmt.Errorf("read backends of %s: %w", id, err)
	}
	return out, nil
}
