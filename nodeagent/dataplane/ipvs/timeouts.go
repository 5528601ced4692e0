package ipvs

import (
	"fmt"
	"strconv"
	"time"

	"portolan.dev/nodeagent/dataplane/host"
)

// timeouts are the kernel's IPVS timeouts in seconds, in the order of its attributes.
type timeouts [3]uint32

// timeoutNames are the names of the timeouts in status.
var timeoutNames = [len(timeouts{})]string{"ipvs timeout tcp", "ipvs timeout tcpfin", "ipvs timeout udp"}

// settleTimeouts sets the timeouts of the namespace that are not zero in t. It returns the settings
// with their former values.
func (s *socket) settleTimeouts(t host.Timeouts) []host.Setting {
	before, err := s.readTimeouts()
	var out []host.Setting
	for i, wanted := range []time.Duration{t.TCP, t.TCPFin, t.UDP} {
		if wanted <= 0 {
			continue
		}
		seconds := uint32(wanted / time.Second)
		setting := host.Setting{
			Name: timeoutNames[i], Want: strconv.FormatUint(uint64(seconds), 10),
			Before: strconv.FormatUint(uint64(before[i]), 10), Err: err,
		}
		if err == nil && before[i] != seconds {
			setting.Err = s.setTimeout(i, seconds)
		}
		out = append(out, setting)
	}
	return out
}

func (s *socket) setTimeout(i int, seconds uint32) error {
	var e encoder
	e.number32(uint16(attrTimeoutTCP+i), seconds)
	if err := s.ask(request{cmd: cmdSetConfig, body: e.b}, 0, func([]byte) error { return nil }); err != nil {
		return fmt.Errorf("set timeouts: %w", err)
	}
	return nil
}

func (s *socket) readTimeouts() (t timeouts, err error) {
	err = s.ask(request{cmd: cmdGetConfig}, 0, func(body []byte) error {
		in, err := parse(body)
		for i := range t {
			t[i] = number(in[attrTimeoutTCP+i])
		}
		return err
	})
	if err != nil {
		return t, fmt.Errorf("read timeouts: %w", err)
	}
	return t, nil
}
