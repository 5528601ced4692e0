package docker

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"portolan.dev/registrar/internal/labels"
	"portolan.dev/registrar/source"
)

// manual is the path of docs/docker.md.
const manual = "testdata/docker.md"

func readManual(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(manual)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestExample reads the labels of the manual's compose file.
func TestExample(t *testing.T) {
	_, after, _ := strings.Cut(readManual(t), "```yaml\n")
	block, _, _ := strings.Cut(after, "```")
	var file struct {
		Services map[string]struct {
			Expose, Ports []string
			Labels        map[string]string
		}
	}
	if err := yaml.Unmarshal([]byte(block), &file); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"web": "/web http=8000 172.17.0.1 tier=front", "dns": "infra/names domain=5300(53)  host"}
	for name, service := range file.Services {
		c := web(1, unlabelled, exposes())
		for _, port := range service.Expose {
			number, protocol, _ := strings.Cut(port, "/")
			if protocol == "" {
				protocol = "tcp"
			}
			c.Config.ExposedPorts[number+"/"+protocol] = struct{}{}
		}
		c.NetworkSettings.Ports = map[string][]binding{}
		for _, port := range service.Ports {
			host, inner, _ := strings.Cut(port, ":")
			c.NetworkSettings.Ports[inner] = []binding{{HostIP: "0.0.0.0", HostPort: host}}
		}
		c.Config.Labels = service.Labels
		load, found := read(Options{}, c)
		if got := summary(load); got != want[name] || len(found) > 0 {
			t.Errorf("%s: the workload is %q with problems %v, want %q", name, got, found, want[name])
		}
		if checked := service.Labels["portolan.ready"] != ""; load.Probe != nil != checked {
			t.Errorf("%s: the check of the workload is %v", name, load.Probe)
		}
		delete(want, name)
	}
	if len(want) > 0 {
		t.Errorf("the compose file lacks services: %v", want)
	}
}

// TestManual checks that the manual has a row for each label and each reason.
func TestManual(t *testing.T) {
	text := readManual(t)
	var rows []string
	for _, name := range labels.Docker.Names() {
		rows = append(rows, labels.Docker.Spell(name))
	}
	rows = append(rows, source.ReasonInvalid, source.ReasonNoAddress, source.ReasonNoPorts, source.ReasonAmbiguous,
		reasonNoService, reasonNoEffect, reasonPublishedTwice, reasonNotPublished, reasonNoAnswer)
	for _, row := range rows {
		if !strings.Contains(text, fmt.Sprintf("\n| `%s` |", row)) {
			t.Errorf("docs/docker.md has no row for %s", row)
		}
	}
	for _, version := range []apiVersion{oldestAPI, newestAPI} {
		if !strings.Contains(text, version.String()) {
			t.Errorf("docs/docker.md does not name version %s of the API", version)
		}
	}
}
