package host

import (
	"os"
	"strings"
)

// Bridged reports for IPv4 and IPv6 whether packets between two ports of a bridge pass the packet
// filter. Docker and Kubernetes enable that.
type Bridged [2]bool

// Of returns the value for one family.
func (b Bridged) Of(v6 bool) bool {
	if v6 {
		return b[1]
	}
	return b[0]
}

// ReadBridged reads the settings of a namespace. If the module br_netfilter is not loaded there are
// none, and bridged packets pass no filter.
func ReadBridged(netns string) (b Bridged) {
	Within(netns, func() error { //nolint:errcheck // then they pass no filter
		for i, name := range bridgeSettings {
			text, err := os.ReadFile(sysctlPath(name))
			b[i] = err == nil && strings.TrimSpace(string(text)) == "1"
		}
		return nil
	})
	return b
}

var bridgeSettings = [2]string{"net.bridge.bridge-nf-call-iptables", "net.bridge.bridge-nf-call-ip6tables"}
