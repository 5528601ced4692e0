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
	return func() error {
		var errs []error
		for from := 0; from < len(all); from += together {
			errs = append(errs, s.do(all[from:min(from+together, len(all))])...)
		}
		return errors.Join(errs...)
	}, s.close, nil
}
