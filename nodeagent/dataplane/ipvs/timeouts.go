package ipvs

import (
	"fmt"
	"strconv"
	"time"

	moby "github.com/moby/ipvs"
	"portolan.dev/nodeagent/dataplane/kernelmode"
)

// applyTimeouts sets the timeouts of the namespace that are not zero in t. It returns the settings
// with their former values.
func (s *session) applyTimeouts(t kernelmode.Timeouts) []kernelmode.Setting {
	config, err := s.config()
	var out []kernelmode.Setting
	for _, timeout := range []struct {
		name   string
		value  *time.Duration // in config
		wanted time.Duration
	}{
		{"ipvs timeout tcp", &config.TimeoutTCP, t.TCP},
		{"ipvs timeout tcpfin", &config.TimeoutTCPFin, t.TCPFin},
		{"ipvs timeout udp", &config.TimeoutUDP, t.UDP},
	} {
		before, wanted := *timeout.value, timeout.wanted.Truncate(time.Second)
		if timeout.wanted <= 0 {
			continue
		}
		setting := kernelmode.Setting{Name: timeout.name, Want: seconds(wanted), Before: seconds(before), Err: err}
		if err == nil && before != wanted {
			*timeout.value = wanted
			if setting.Err = s.setConfig(config); setting.Err != nil {
				*timeout.value = before
			}
		}
		out = append(out, setting)
	}
	return out
}

func seconds(d time.Duration) string { return strconv.FormatInt(int64(d/time.Second), 10) }

func (s *session) setConfig(config moby.Config) error {
	_, err := call(s, s.timeout, func(c *connection) (struct{}, error) { return struct{}{}, c.handle.SetConfig(&config) })
	if err != nil {
		return fmt.Errorf("set timeouts: %w", err)
	}
	return nil
}

// config reads the timeouts of the namespace.
func (s *session) config() (moby.Config, error) {
	config, err := call(s, s.timeout, func(c *connection) (*moby.Config, error) { return c.handle.GetConfig() })
	if err != nil {
		return moby.Config{}, fmt.Errorf("read timeouts: %w", err)
	}
	return *config, nil
}
