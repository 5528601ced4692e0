package cli

import (
	"slices"
	"strings"
	"testing"
)

// TestResolversAskPort53 checks that a resolv.conf gets only the addresses on which a name server
// listens on port 53.
func TestResolversAskPort53(t *testing.T) {
	listen := []string{"127.0.0.1:7053", "10.0.0.1:53", "[fd00::1]:53", "[::]:53", "nonsense"}
	if got := onPort53(listen, "192.0.2.7"); !slices.Equal(got, []string{"10.0.0.1", "fd00::1", "192.0.2.7"}) {
		t.Errorf("servers %q", got)
	}
	if got := onPort53([]string{"[::]:53"}, "registry.example"); got != nil {
		t.Errorf("a host that is no address: %q", got)
	}
}

// TestResolverOfTheHost checks that the commands name the zone and the server with its port.
func TestResolverOfTheHost(t *testing.T) {
	for resolver, want := range map[string][]string{
		"resolved": {"DNS=127.0.0.1:7053", "Domains=~cluster.local"},
		"dnsmasq":  {"server=/cluster.local/127.0.0.1#7053"},
		"unbound":  {`name: "cluster.local"`, "forward-addr: 127.0.0.1@7053"},
	} {
		code, out, errOut := run(t, "", "dns", "system", "--resolver", resolver)
		if code != 0 {
			t.Errorf("%s: exit code %d, %s", resolver, code, errOut)
		}
		for _, text := range want {
			if !strings.Contains(out, text) {
				t.Errorf("%s: %q is not in\n%s", resolver, text, out)
			}
		}
	}
}
