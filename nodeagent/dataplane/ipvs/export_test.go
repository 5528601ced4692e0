package ipvs

import (
	"errors"

	"portolan.dev/nodeagent/dataplane/kernel"
	"portolan.dev/nodeagent/plan"
)

// Raw adds servers by nothing but messages, and returns a function that sends
// them, so many at once: the least that programming can cost.
func Raw(namespace string, servers []*plan.VirtualServer, together int) (send func() error, stop func(), err error) {
	var s *socket
	err = kernel.Within(namespace, func() (err error) {
		s, err = openSocket()
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	var all []request
	for _, v := range servers {
		id := serviceID{v.Addr, v.Protocol}
		all = append(all, serviceRequest(cmdNewService, id, settings{scheduler: v.Scheduler.String()}))
		for _, r := range v.Reals {
			all = append(all, destRequest(cmdNewDest, id, r.Addr, r.Weight))
		}
	}
	// Encoded beforehand: what is measured is the kernel.
	var loads []*load
	for from := 0; from < len(all); from += together {
		l := &load{done: make(chan error, 1)}
		l.encode(all[from:min(from+together, len(all))], s.family, s.seq+1)
		s.seq += uint32(len(l.errs))
		loads = append(loads, l)
	}
	return func() error {
		for _, l := range loads {
			s.line.jobs <- l.run
			if err := errors.Join(s.await(l.done), errors.Join(l.errs...)); err != nil {
				return err
			}
		}
		return nil
	}, s.close, nil
}

// Timeouts reads the kernel's timeouts of tcp, tcpfin and udp, in seconds.
func Timeouts(namespace string) (out [3]uint32, err error) {
	err = kernel.Within(namespace, func() error {
		s, err := openSocket()
		if err != nil {
			return err
		}
		defer s.close()
		out, err = s.readTimeouts()
		return err
	})
	return out, err
}
