package systemd

import (
	"slices"
	"strings"
	"testing"
	"time"

	"portolan.dev/registrar/internal/labels"
	"portolan.dev/registrar/source"
)

// describeText returns the description of a unit web@8000.service with one file.
func describeText(content string) description {
	return describe("web@8000.service", assignments(content))
}

func TestDescribe(t *testing.T) {
	const head = "[Service]\nX-Portolan-Service=web\n"
	d := describeText(head + "X-Portolan-Namespace=shop\nX-Portolan-Port-http=%i\nX-Portolan-Port-dns=53/udp\nX-Portolan-Weight=3\nX-Portolan-Drain=10s\n" +
		"X-Portolan-Label-app.kubernetes.io/part-of=%p\nX-Portolan-Address=10.0.0.7 fd00:0::7\n")
	if len(d.problems) > 0 || d.refused {
		t.Fatalf("%+v", d)
	}
	if d.Service != "web" || d.Namespace != "shop" || len(d.Ports) != 2 || d.Ports[1].Number != 8000 || *d.Weight != 3 || d.Drain != 10*time.Second ||
		d.Labels["app.kubernetes.io/part-of"] != "web" || !slices.Equal(d.addresses, []string{"10.0.0.7", "fd00::7"}) {
		t.Errorf("%+v", d)
	}
	for name, content := range map[string]string{
		"no keys": "[Service]\nExecStart=true\n", "taken out": head + "X-Portolan-Weight=x\n[Service]\nX-Portolan-Service=\n",
	} {
		if d := describeText(content); d.Service != "" || len(d.problems) > 0 {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

func TestMistakes(t *testing.T) {
	const head = "[Service]\nX-Portolan-Service=web\n"
	for name, c := range map[string]struct {
		content, field, message string
		registered              bool
	}{
		"no service":          {"[Service]\nX-Portolan-Port-http=1\n", "X-Portolan-Service", "is missing", false},
		"service":             {"[Service]\nX-Portolan-Service=\"web\"\n", "X-Portolan-Service", "", false},
		"service specifier":   {"[Service]\nX-Portolan-Service=%h\n", "X-Portolan-Service", "%h is not known", false},
		"section":             {head + "[Unit]\nX-Portolan-Weight=1\n", "X-Portolan-Weight", "section [Unit]", true},
		"case":                {head + "x-portolan-weight=1\n", "x-portolan-weight", "words are X-Portolan-Service, ", true},
		"unknown":             {head + "X-Portolan-Prot-http=1\n", "X-Portolan-Prot-http", "X-Portolan-Port-NAME", true},
		"port":                {head + "X-Portolan-Port-http=0\n", "X-Portolan-Port-http", "8000 or 53/udp", true},
		"port name twice":     {head + "X-Portolan-Port-a=8000-8001\nX-Portolan-Port-b=8001-8002\n", "X-Portolan-Port-b", "another port has the name \"tcp-8001\"", true},
		"port specifier":      {head + "X-Portolan-Port-http=%q\n", "X-Portolan-Port-http", "%q is not known", true},
		"namespace":           {head + "X-Portolan-Namespace=my_shop\n", "X-Portolan-Namespace", "so it is not registered", false},
		"namespace specifier": {head + "X-Portolan-Namespace=%H\n", "X-Portolan-Namespace", "so the unit is not registered", false},
		"address":             {head + "X-Portolan-Address=web.example\n", "X-Portolan-Address", "want an IP address", false},
		"address specifier":   {head + "X-Portolan-Address=%H\n", "X-Portolan-Address", "%H is not known", false},
		"loopback":            {head + "X-Portolan-Address=::1\n", "X-Portolan-Address", "no address that other machines reach", false},
		"zone":                {head + "X-Portolan-Address=fe80::1%%eth0\n", "X-Portolan-Address", "no address that other machines reach", false},
		"two addresses":       {head + "X-Portolan-Address=10.0.0.1 10.0.0.2\n", "X-Portolan-Address", "two addresses of one family", false},
	} {
		d := describeText(c.content)
		u := unit{description: d}
		if len(d.problems) != 1 || u.registered() != c.registered {
			t.Errorf("%s: registered %t, problems %+v", name, u.registered(), d.problems)
			continue
		}
		if p := d.problems[0]; p.Object != "web@8000.service" || p.Field != c.field || p.Reason != source.ReasonInvalid || !strings.Contains(p.Message, c.message) {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

// TestUnreadableCheck checks that a unit is never ready if its check has an unknown specifier.
func TestUnreadableCheck(t *testing.T) {
	u := unit{listed: listed{Name: "web.service", ActiveState: active}, description: describeText("[Service]\nX-Portolan-Service=web\nX-Portolan-Port-http=80\nX-Portolan-Ready=http://:80/%z\n")}
	w, problem := u.workload()
	if problem != nil || w.Ready || w.Probe != nil || !strings.Contains(w.Reason, "X-Portolan-Ready cannot be read: the specifier %z") {
		t.Errorf("%+v %+v", w, problem)
	}
}

func TestUnusablePorts(t *testing.T) {
	for text, reason := range map[string]string{
		"": source.ReasonNoPorts, "X-Portolan-Port-a=1-100\nX-Portolan-Port-b=201-300\n": source.ReasonAmbiguous, "X-Portolan-Port-a=1-100\n": "",
	} {
		u := unit{listed: listed{Name: "web.service", ActiveState: active}, description: describeText("[Service]\nX-Portolan-Service=web\n" + text)}
		w, problem := u.workload()
		if reason == "" {
			if problem != nil || len(w.Ports) != labels.MaxPorts {
				t.Errorf("%s: %+v, %d ports", text, problem, len(w.Ports))
			}
		} else if problem == nil || problem.Reason != reason || problem.Object != "web.service" || problem.Field != "X-Portolan-Port-NAME" {
			t.Errorf("%s: %+v", text, problem)
		}
	}
}

// FuzzUnitFile describes a unit with any file.
func FuzzUnitFile(f *testing.F) {
	f.Add("[Service]\nX-Portolan-Service=web\nX-Portolan-Port-http=%i\n")
	f.Add("[Service]\nX-Portolan-Service=\\\n# web\n web\nX-Portolan-Address=10.0.0.7 fd00::7\nX-Portolan-Drain=5%")
	f.Fuzz(func(t *testing.T, content string) {
		d := describeText(content)
		for _, p := range d.problems {
			if !strings.HasPrefix(strings.ToLower(p.Field), strings.ToLower(labels.Systemd.Prefix)) || p.Message == "" {
				t.Errorf("%+v", p)
			}
		}
		// The same assignments without comments and continued lines give the same description. The blank at
		// the end of a line keeps a backslash from continuing it.
		var plain strings.Builder
		for _, a := range assignments(content) {
			plain.WriteString("[" + a.section + "]\n" + a.key + "=" + a.value + " \n")
		}
		if again := describeText(plain.String()); again.Service != d.Service || !slices.Equal(again.Ports, d.Ports) || !slices.Equal(again.addresses, d.addresses) || len(again.problems) != len(d.problems) {
			t.Errorf("%+v\nwritten again: %+v", d, again)
		}
	})
}
