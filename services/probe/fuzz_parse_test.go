package probe_test

import (
	"strings"
	"testing"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kinds"
	"portolan.dev/services/probe"
	"portolan.dev/services/spec"
)

// FuzzParse parses any line. The registry accepts the probe of a line without mistake, the spaces
// between the words of a line have no meaning, and an error shows the line.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"http://:8000/healthz period=5s timeout=2s failures=3 successes=1 delay=10s", "https://[fd00::1]:web/x?y=%20", "tcp://db.example:5432", "grpc://:9000/shop.Cart",
		"exec:check-db --host a period=5s x=y", "ttl:1m30s", "exec:../x", "exec:/bin/sh -c true", "tcp://:a_b", "http://:80/#", "ttl:30s period=1s", "tcp://:99999", "", "\xff", "tcp://[::1%eth0]:80",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		found, err := probe.Parse(text)
		if err != nil {
			if found != nil || strings.TrimSpace(text) != "" && !strings.Contains(err.Error(), "check ") {
				t.Fatalf("%q became %v, %v", text, found, err)
			}
			return
		}
		again, err := probe.Parse("  " + strings.Join(strings.Fields(text), "\t ") + "\n")
		if err != nil || !again.EqualVT(found) {
			t.Fatalf("%q became %v, and with other spaces %v, %v", text, found, again, err)
		}
		pod := &corev1.Pod{
			Metadata: &corev1.ObjectMeta{Namespace: "default", Name: "p"},
			Spec:     &corev1.PodSpec{Containers: []*corev1.Container{{Name: "c", ReadinessProbe: found}}},
		}
		kind := kinds.Of(pod)
		kind.Default(pod)
		kind.PrepareCreate(pod)
		if found := kind.Validate(pod, spec.Rules{}); len(found) > 0 {
			t.Fatalf("the probe of %q is refused: %v", text, found)
		}
		if exec := found.GetExec(); exec != nil && probe.CheckScriptName(exec.GetCommand()[0]) != nil {
			t.Fatalf("%q runs %q", text, exec.GetCommand()[0])
		}
	})
}
