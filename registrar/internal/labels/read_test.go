package labels

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"portolan.dev/registrar/source"
)

func read(values map[string]string) (Settings, []source.Problem) {
	r := Reader{Object: "web-1", Spelling: Docker, Spell: func(name string) string { return "portolan." + name }}
	return r.Read(values)
}

// TestRead reads all labels in their usual forms.
func TestRead(t *testing.T) {
	settings, problems := read(map[string]string{
		"service": " web ", "namespace": "shop", "port.http": "8000", "port.dns": "53/udp", "labels.tier": "front", "weight": "0",
		"ready": "http://:8000/healthz", "drain": "10s", "network": "any",
	})
	if len(problems) > 0 {
		t.Fatalf("problems %v", problems)
	}
	var ports []string
	for _, p := range settings.Ports {
		ports = append(ports, fmt.Sprintf("%s %d %s", p.Name, p.Number, NameOf(p)))
	}
	if settings.Service != "web" || settings.Namespace != "shop" || strings.Join(ports, ", ") != "dns 53 udp-53, http 8000 tcp-8000" || settings.Labels["tier"] != "front" ||
		settings.Weight == nil || *settings.Weight != 0 || settings.Drain != 10*time.Second || settings.Probe.GetHttpGet().GetPath() != "/healthz" || settings.NeverReady != "" {
		t.Errorf("the settings are %+v, with ports %v", settings, ports)
	}
}

// TestLimitsOfDrain checks that the shortest and the longest drain are accepted, and that longer and shorter ones are
// not: their message names the limits.
func TestLimitsOfDrain(t *testing.T) {
	for drain, valid := range map[time.Duration]bool{
		time.Second: true, MaxDrain: true, time.Second - time.Nanosecond: false, MaxDrain + time.Nanosecond: false,
	} {
		settings, problems := read(map[string]string{"drain": drain.String()})
		if valid && (len(problems) > 0 || settings.Drain != drain) || !valid && (len(problems) != 1 || settings.Drain != 0) {
			t.Errorf("%s: drain %s, problems %v", drain, settings.Drain, problems)
		}
	}
}

// TestMistakes checks that a label that cannot be read is a problem with its name, and that the other labels
// are read.
func TestMistakes(t *testing.T) {
	for _, one := range []struct{ name, value, says string }{
		{"service", "Web!", "RFC 1035"},
		{"namespace", "a.b", "lower case letters"},
		{"port.http", "http", "want a port"},
		{"port.http", "0", "want a port"},
		{"port.http", "65536", "want a port"},
		{"port.http", "80/icmp", "protocol \"icmp\" is not known"},
		{"port.UPPER", "80", "the name \"UPPER\""},
		{"port.x", "9-1", "the smaller first"},
		{"labels.a b", "c", "a b"},
		{"labels.tier", strings.Repeat("x", 99), "x…"},
		{"weight", "65536", "between 0 and 65535"},
		{"drain", "10", "a duration"},
		{"drain", "2h", "a duration"},
		{"ready", "gopher://x", "gopher"},
		{"reday", "tcp://:1", "is not known; words are"},
		{"reday", "tcp://:1", "portolan.ready"},
		{"prot", "80", "portolan.port.NAME"},
	} {
		settings, problems := read(map[string]string{"port.other": "81", one.name: one.value})
		if len(problems) != 1 || problems[0].Object != "web-1" || problems[0].Field != "portolan."+one.name || !strings.Contains(problems[0].Message, one.says) {
			t.Errorf("%s=%s: problems %v, want %q", one.name, one.value, problems, one.says)
		}
		if len(settings.Ports) != 1 || settings.Ports[0].Name != "other" {
			t.Errorf("%s=%s: ports %v", one.name, one.value, settings.Ports)
		}
		if (settings.NeverReady != "") != (one.name == "ready") {
			t.Errorf("%s=%s: never ready %q", one.name, one.value, settings.NeverReady)
		}
	}
}

// TestShorten checks that a text of the largest length is left as it is, and that no letter is cut in two.
func TestShorten(t *testing.T) {
	for text, want := range map[string]string{
		strings.Repeat("x", 64): strings.Repeat("x", 64), strings.Repeat("x", 65): strings.Repeat("x", 64) + "…",
		strings.Repeat("x", 63) + "ä": strings.Repeat("x", 63) + "…",
	} {
		if got := shorten(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}
