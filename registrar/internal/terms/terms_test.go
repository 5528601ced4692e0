package terms

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"portolan.dev/registrar/source"
)

func read(words map[string]string) (Terms, []source.Problem) {
	r := Reader{Object: "web-1", Spell: func(word string) string { return "portolan." + word }, Known: []string{"network"}}
	return r.Read(words)
}

// TestWords reads all words in their usual forms.
func TestWords(t *testing.T) {
	terms, problems := read(map[string]string{
		"service": " web ", "namespace": "shop", "port.http": "8000", "port.dns": "53/udp", "labels.tier": "front", "weight": "0",
		"ready": "http://:8000/healthz", "drain": "10s", "network": "any",
	})
	if len(problems) > 0 {
		t.Fatalf("problems %v", problems)
	}
	var ports []string
	for _, p := range terms.Ports {
		ports = append(ports, fmt.Sprintf("%s %d %s", p.Name, p.Number, NameOf(p)))
	}
	if terms.Service != "web" || terms.Namespace != "shop" || strings.Join(ports, ", ") != "dns 53 udp-53, http 8000 tcp-8000" || terms.Labels["tier"] != "front" ||
		terms.Weight == nil || *terms.Weight != 0 || terms.Drain != 10*time.Second || terms.Probe.GetHttpGet().GetPath() != "/healthz" || terms.NeverReady != "" {
		t.Errorf("the terms are %+v, with ports %v", terms, ports)
	}
}

// TestMistakes checks that a word that cannot be read is a problem with its name, and that the others count.
func TestMistakes(t *testing.T) {
	for _, one := range []struct{ word, value, says string }{
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
	} {
		terms, problems := read(map[string]string{"port.other": "81", one.word: one.value})
		if len(problems) != 1 || problems[0].Object != "web-1" || problems[0].Field != "portolan."+one.word || !strings.Contains(problems[0].Message, one.says) {
			t.Errorf("%s=%s: problems %v, want %q", one.word, one.value, problems, one.says)
		}
		if len(terms.Ports) != 1 || terms.Ports[0].Name != "other" {
			t.Errorf("%s=%s: ports %v", one.word, one.value, terms.Ports)
		}
		if (terms.NeverReady != "") != (one.word == "ready") {
			t.Errorf("%s=%s: never ready %q", one.word, one.value, terms.NeverReady)
		}
	}
}
