package labels

import "testing"

// TestSpelling checks that Name undoes Spell, and that Name returns unknown labels as they are.
func TestSpelling(t *testing.T) {
	for _, s := range []Spelling{Docker, Systemd} {
		for _, name := range s.Names() {
			written := s.Spell(name)
			if written == name || s.Name(written) != name {
				t.Errorf("%s is written %q, which is read as %q", name, written, s.Name(written))
			}
		}
	}
	for written, want := range map[string]string{
		"X-Portolan-Service": Service, "X-Portolan-Port-http": "port.http", "X-Portolan-Label-example.com/tier": "labels.example.com/tier",
		"X-Portolan-Drain": Drain, "X-Portolan-Address": Address,
	} {
		if name := Systemd.Name(written); name != want || Systemd.Spell(name) != written {
			t.Errorf("the key %q has the name %q, want %q", written, name, want)
		}
	}
	for _, text := range []string{"portolan.serviceX", "portolan.address", "portolan.", "X-Portolan-Service", ""} {
		if name := Docker.Name(text); name != text {
			t.Errorf("the label %q has the name %q, want the label itself", text, name)
		}
	}
	for _, text := range []string{"x-portolan-service", "X-Portolan-Network", "X-Portolan-Services", "X-Portolan-A.b"} {
		if name := Systemd.Name(text); name != text {
			t.Errorf("the key %q has the name %q, want the key itself", text, name)
		}
	}
}
