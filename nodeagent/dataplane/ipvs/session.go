package ipvs

import (
	"errors"
	"fmt"
	"slices"
	"time"

	moby "github.com/moby/ipvs"
	"golang.org/x/sys/unix"

	"portolan.dev/nodeagent/dataplane/ipvs/batch"
	"portolan.dev/nodeagent/dataplane/kernel"
	"portolan.dev/nodeagent/dataplane/kernelmode"
	"portolan.dev/nodeagent/plan"
)

const (
	// answerTimeout is the longest time that the kernel may take for an answer.
	answerTimeout = 10 * time.Second
	// endTimeout is the longest time that an abandoned call may take to end after its connection is
	// closed. Without a kernel that hangs it ends at once.
	endTimeout = time.Second
	// answersPerCall is the number of answers for which a call of many answers may wait.
	answersPerCall = 3
	// changesPerCall is the number of changes in one call to the kernel.
	changesPerCall = 8 * batch.Size
	// serversPerCall is the number of servers of which one call reads the backends.
	serversPerCall = 512
)

// session makes calls to the kernel's IPVS, in one network namespace. The library waits for answers
// without limit, so calls run on a goroutine of their own, and a call that takes too long is
// abandoned with its connection. It is not safe for concurrent use.
type session struct {
	open    func() (*connection, error)
	timeout time.Duration // of an answer
	toEnd   time.Duration // of an abandoned call

	conn      *connection // of worker
	worker    *worker     // nil: not open
	abandoned *worker     // its goroutine may still be in a call to the kernel
}

// newSession opens a session in the network namespace at a path. If the path is empty, it uses the
// namespace of the process.
func newSession(namespace string) (*session, error) {
	s := &session{timeout: answerTimeout, toEnd: endTimeout, open: func() (*connection, error) { return connect(namespace) }}
	if err := s.connect(); err != nil {
		return nil, err
	}
	return s, nil
}

// connect opens the connection if there is none.
func (s *session) connect() error {
	if s.worker != nil {
		return nil
	}
	if s.abandoned != nil && !s.abandoned.hasEnded() { // a new connection would hang too
		return batch.ErrTimeout
	}
	s.worker, s.abandoned = newWorker(), nil
	type opened struct {
		conn *connection
		err  error
	}
	result := make(chan opened, 1)
	s.worker.jobs <- func() {
		conn, err := s.open()
		result <- opened{conn, err}
	}
	select {
	case r := <-result:
		s.conn = r.conn
		if r.err != nil {
			s.close()
		}
		return r.err
	case <-time.After(answersPerCall * s.timeout):
		s.abandoned, s.worker = s.worker, nil
		s.abandoned.jobs <- func() { (<-result).conn.close() }
		close(s.abandoned.jobs)
		return batch.ErrTimeout
	}
}

// close closes the connection as soon as the current call to the kernel returns.
func (s *session) close() {
	if s.worker == nil {
		return
	}
	s.worker.jobs <- s.conn.close
	close(s.worker.jobs)
	s.worker = nil
}

// call calls fn on the session's goroutine. It returns batch.ErrTimeout if fn does not return in
// time. Then fn continues in the background and must not use the caller's data.
func call[T any](s *session, timeout time.Duration, fn func(*connection) (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	var none T
	if err := s.connect(); err != nil {
		return none, err
	}
	conn, result := s.conn, make(chan answer, 1)
	s.worker.jobs <- func() {
		value, err := fn(conn)
		result <- answer{value, err}
	}
	watchdog := time.NewTimer(timeout)
	defer watchdog.Stop()
	select {
	case a := <-result:
		var errno unix.Errno
		if a.err != nil && !errors.As(a.err, &errno) { // more answers may be on their way
			s.close()
		}
		return a.value, a.err
	case <-watchdog.C:
		s.abandoned = s.worker
		s.close()
		s.abandoned.waitFor(conn.handle.Close, s.toEnd) // ends a call of the library, unless the kernel itself hangs
		return none, batch.ErrTimeout
	}
}

// execute carries out changes and returns the error of each. Failed changes are tried once more in
// order, without the others, because one of the others may have caused the failure. If answers were
// lost, execute finds out whether the kernel carried out the changes. An abandoned call may use the
// changes until it ends, so they must not be modified.
func (s *session) execute(changes []batch.Change) []error {
	errs := s.send(changes)
	var again []int
	var failed []batch.Change
	for i, err := range errs {
		if err != nil && (len(changes) > 1 || maybeDone(err)) {
			again, failed = append(again, i), append(failed, changes[i]) // #nosec G602 -- send returns an error for each change
		}
	}
	if len(again) == 0 {
		return errs
	}
	for k, err := range s.send(failed) {
		i := again[k]
		if maybeDone(errs[i]) {
			err = s.resultOf(changes, i, err)
		}
		errs[i] = err
	}
	return errs
}

// maybeDone reports whether a change may have been carried out in spite of its error. ENOBUFS is the
// library's error for a lost answer.
func maybeDone(err error) bool {
	return errors.Is(err, batch.ErrLost) || errors.Is(err, batch.ErrTimeout) || errors.Is(err, unix.ENOBUFS)
}

// send sends changes: a single one by the library's handle, many by batches.
func (s *session) send(changes []batch.Change) []error {
	if err := s.connect(); err != nil {
		return slices.Repeat([]error{fmt.Errorf("%w: %w", batch.ErrTimeout, err)}, len(changes))
	}
	if len(changes) == 1 {
		_, err := call(s, s.timeout, func(conn *connection) (struct{}, error) { return struct{}{}, conn.change(&changes[0]) })
		return []error{err}
	}
	errs := make([]error, 0, len(changes))
	for part := range slices.Chunk(changes, changesPerCall) {
		results, err := call(s, answersPerCall*s.timeout, func(conn *connection) ([]error, error) {
			results := conn.batch.Do(part)
			if errors.Is(results[len(results)-1], batch.ErrTimeout) {
				return results, batch.ErrTimeout
			}
			return results, nil
		})
		errs = append(errs, results...)
		if err != nil {
			break
		}
	}
	return append(errs, slices.Repeat([]error{batch.ErrTimeout}, len(changes)-len(errs))...)
}

// alreadyDone reports whether an error means that there was nothing to do.
func alreadyDone(c batch.Command, err error) bool {
	switch c {
	case batch.NewService, batch.NewDestination:
		return errors.Is(err, unix.EEXIST)
	case batch.DelService, batch.DelDestination:
		return errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ENOENT)
	}
	return false
}

// resultOf returns the result of a change if its first answer was lost, from the error of the second
// try. A service that exists may belong to another program. Ours has the settings and only the
// backends of these changes.
func (s *session) resultOf(changes []batch.Change, i int, err error) error {
	c := &changes[i]
	switch {
	case !alreadyDone(c.Command, err):
		return err
	case c.Command != batch.NewService:
		return nil
	}
	id := frontendOf(&c.Service)
	found, backends, unread := s.server(id)
	switch {
	case unread != nil:
		return fmt.Errorf("%w: %w", batch.ErrLost, unread)
	case found != settingsOf(&c.Service):
		return err
	}
	for _, d := range backends {
		ours := slices.ContainsFunc(changes, func(o batch.Change) bool {
			return o.Command == batch.NewDestination && frontendOf(&o.Service) == id && addrOf(&o.Destination) == addrOf(&d)
		})
		if !ours {
			return err
		}
	}
	return nil
}

// servers reads the settings of all virtual servers of the namespace.
func (s *session) servers() (map[plan.Frontend]kernel.Settings, error) {
	list, err := call(s, answersPerCall*s.timeout, func(c *connection) ([]*moby.Service, error) { return c.handle.GetServices() })
	if err != nil {
		return nil, fmt.Errorf("read virtual servers: %w", err)
	}
	out := make(map[plan.Frontend]kernel.Settings, len(list))
	for _, found := range list {
		if found.FWMark == 0 { // services with a packet mark are never ours
			out[frontendOf(found)] = settingsOf(found)
		}
	}
	return out, nil
}

// server reads one virtual server.
func (s *session) server(id plan.Frontend) (kernel.Settings, []moby.Destination, error) {
	service := identity(id)
	found, err := call(s, s.timeout, func(c *connection) (*moby.Service, error) { return c.handle.GetService(&service) })
	if err != nil {
		return kernel.Settings{}, nil, fmt.Errorf("read virtual server %s: %w", id, err)
	}
	lists, err := s.backends(id)
	if err != nil {
		return kernel.Settings{}, nil, err
	}
	return settingsOf(found), lists[0], nil
}

// backends reads the backends of virtual servers, in the order of the servers. A server that does not exist has
// none.
func (s *session) backends(ids ...plan.Frontend) ([][]moby.Destination, error) {
	out := make([][]moby.Destination, 0, len(ids))
	for part := range slices.Chunk(ids, serversPerCall) {
		services := make([]moby.Service, len(part))
		for i, id := range part {
			services[i] = identity(id)
		}
		lists, err := call(s, answersPerCall*s.timeout, func(c *connection) ([][]moby.Destination, error) {
			return c.batch.Destinations(services)
		})
		if err != nil {
			return nil, fmt.Errorf("read backends: %w", err)
		}
		out = append(out, lists...)
	}
	return out, nil
}

// traffic reads the counters of all virtual servers of the namespace.
func (s *session) traffic() (map[plan.Frontend]kernelmode.Traffic, error) {
	list, err := call(s, answersPerCall*s.timeout, func(c *connection) ([]batch.Counted, error) { return c.batch.Counters() })
	if err != nil {
		return nil, fmt.Errorf("read traffic of virtual servers: %w", err)
	}
	out := make(map[plan.Frontend]kernelmode.Traffic, len(list))
	for i := range list {
		if list[i].Service.FWMark == 0 {
			out[frontendOf(&list[i].Service)] = kernelmode.Traffic(list[i].Counters)
		}
	}
	return out, nil
}
