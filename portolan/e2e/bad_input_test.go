package e2e

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"portolan.dev/services/kit/kittest"
)

// TestBadInput checks that the error of each bad input names its position, and that nothing changes
// or breaks.
func TestBadInput(t *testing.T) {
	i := install(t)
	i.apply(`{apiVersion: v1, kind: Service, metadata: {name: first}, spec: {type: NodePort, clusterIP: ` + i.network.IP("64.10") + `, ports: [{port: 80, nodePort: 30010}]}}`)
	service := func(name, spec string) string {
		return "{apiVersion: v1, kind: Service, metadata: {name: " + name + "}, spec: " + spec + "}"
	}
	for name, c := range map[string]struct {
		manifest string
		want     []string // in the message
	}{
		"malformed YAML":         {"apiVersion: v1\nkind: Service\nmetadata: {name: x\n", []string{"standard input:3:"}},
		"unknown field":          {service("x", "{ports: [{port: 80, colour: red}]}"), []string{"spec.ports[0].colour"}},
		"no RFC 1035 label":      {service("1web", "{ports: [{port: 80}]}"), []string{"metadata.name", "1web"}},
		"clusterIP taken":        {service("x", "{clusterIP: "+i.network.IP("64.10")+", ports: [{port: 80}]}"), []string{"spec.clusterIPs[0]", "already allocated"}},
		"clusterIP out of range": {service("x", "{clusterIP: 10.1.2.3, ports: [{port: 80}]}"), []string{"spec.clusterIPs[0]", "range", i.network.Services()}},
		"nodePort taken":         {service("x", "{type: NodePort, ports: [{port: 80, nodePort: 30010}]}"), []string{"spec.ports[0].nodePort", "already allocated"}},
		"nodePort out of range":  {service("x", "{type: NodePort, ports: [{port: 80, nodePort: 80}]}"), []string{"spec.ports[0].nodePort", "30000-32767"}},
		"several faults":         {service("x", "{type: Nonsense, sessionAffinity: Always, ports: [{port: 0}]}"), []string{"spec.type", "spec.sessionAffinity"}},
	} {
		t.Run(name, func(t *testing.T) {
			out, errOut, err := i.try(c.manifest, "apply", "-f", "-")
			if err == nil {
				t.Fatalf("it was taken: %s", out)
			}
			for _, want := range c.want {
				if !strings.Contains(errOut, want) {
					t.Errorf("the message lacks %q:\n%s", want, errOut)
				}
			}
		})
	}
	if got := strings.Fields(i.portolan("get", "services", "-o", "name")); len(got) != 1 || got[0] != "service/first" {
		t.Errorf("after all faults there are %v, want service/first alone", got)
	}
}

// TestPortIsTaken has another program on the address and port of a service. It checks that the
// service reports it and that everything else works.
func TestPortIsTaken(t *testing.T) {
	i := install(t)
	other, err := net.Listen("tcp", i.network.Addr("64.20", 8080))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	i.apply(`{apiVersion: v1, kind: Service, metadata: {name: blocked}, spec: {clusterIP: ` + i.network.IP("64.20") + `, selector: {app: b}, ports: [{port: 8080}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: free}, spec: {selector: {app: b}, ports: [{port: 8080}]}}
`)
	i.hello("b1", "app=b", "http", 8080)
	i.awaitBackends("free", 1)
	if name, err := get(hostPort(i.vip("free"), 8080)); err != nil || name != "b1" {
		t.Errorf("the other service: %q, %v", name, err)
	}
	kittest.Eventually(t, "explain and describe say it", func() error {
		out, _, _ := i.try("", "explain", "service", "blocked")
		if err := lacks(out, "in use", "->"); err != nil {
			return err
		}
		return lacks(i.portolan("describe", "service", "blocked"), "FailedToListen")
	})
	_ = other.Close()
	i.awaitBackends("blocked", 1)
}

// TestPublicManifests applies manifests that well-known applications publish, unmodified.
func TestPublicManifests(t *testing.T) {
	files, err := filepath.Glob("testdata/public/*.yaml")
	if err != nil || len(files) < 2 {
		t.Fatalf("%v, %v", files, err)
	}
	i := install(t)
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		services := strings.Count(string(content), "\nkind: Service\n")
		out := i.apply(string(content))
		if applied := strings.Count(out, "service/"); applied != services || services == 0 {
			t.Errorf("%s: %d services applied, the file has %d:\n%s", file, applied, services, out)
		}
	}
}
