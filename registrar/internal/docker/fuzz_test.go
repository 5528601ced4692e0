package docker

import (
	"encoding/json"
	"net/netip"
	"testing"
	"time"

	"portolan.dev/registrar/internal/objects"
	"portolan.dev/services/kinds"
	"portolan.dev/services/spec"
)

// FuzzContainer reads any answer about a container, and checks that the registry accepts the pod of the
// workload, and that the number and length of problems are limited.
func FuzzContainer(f *testing.F) {
	for _, c := range []*container{
		web(1), web(2, label("portolan.port.http", "80-90"), label("portolan.ready", "http://:80/"), label("portolan.weight", "3")),
		web(3, published(`{"8000/tcp":[{"HostIp":"0.0.0.0","HostPort":"49153"},{"HostIp":"::","HostPort":"49153"}]}`)),
		web(4, unlabelled, variables("SERVICE_NAME=db", "SERVICE_8000_NAME=http", "SERVICE_8000_CHECK_HTTP=/", "SERVICE_TAGS=a")),
		web(5, unlabelled, label(composeService, "web"), label(composeProject, "shop")),
		web(6, networks(`{"a":{"IPAddress":"10.1.0.2"},"b":{"GlobalIPv6Address":"fd00::2"}}`), label("portolan.network", "b")),
	} {
		text, err := json.Marshal(c)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	builder := &objects.Builder{Node: "n1", Owner: "registrar/n1", Namespace: "default"}
	f.Fuzz(func(t *testing.T, text []byte) {
		var c container
		if json.Unmarshal(text, &c) != nil {
			return
		}
		options := Options{ComposeNames: true, NodeAddresses: []netip.Addr{netip.MustParseAddr("192.0.2.1")}}
		load, found := read(options, &c)
		if len(found) > maxProblems {
			t.Fatalf("there are %d problems", len(found))
		}
		for _, problem := range found {
			if len(problem.Message) > 4096 || problem.Reason == "" {
				t.Fatalf("the problem is %d bytes long: %+v", len(problem.Message), problem)
			}
		}
		if load == nil {
			return
		}
		signals{}.stopsUntil(&c, time.Second)
		pod := builder.Pod("docker", load, nil)
		kind := kinds.Of(pod)
		kind.Default(pod)
		kind.PrepareCreate(pod)
		if refused := kind.Validate(pod, spec.Rules{}); len(refused) > 0 {
			t.Fatalf("the pod of %s is refused: %v", text, refused)
		}
	})
}
