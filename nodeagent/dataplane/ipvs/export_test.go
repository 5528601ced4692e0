package ipvs

import "portolan.dev/nodeagent/dataplane/host"

// Timeouts reads the kernel's timeouts of tcp, tcpfin and udp, in seconds.
func Timeouts(namespace string) (out [3]uint32, err error) {
	err = host.Within(namespace, func() error {
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
