package plan_test

import (
	"bytes"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/prototext"

	corev1 "portolan.dev/api/core/v1"

	"portolan.dev/nodeagent/plan"
)

var update = flag.Bool("update", false, "write the golden files anew")

// goldenFacts are the facts of the node in the golden tests.
var goldenFacts = plan.Facts{
	Node: "here", Zone: "z1", Scheduler: plan.RoundRobin, Drain: 300 * time.Second,
	NodePorts: []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")},
}

// TestGolden plans the services in testdata. A file holds objects in text format, separated by
// lines of dashes, the service first. The .golden file beside it holds the expected plan.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtpb")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtpb"), func(t *testing.T) {
			svc, slicesOf := readObjects(t, file)
			got := render(plan.Build(svc, slicesOf, &goldenFacts))
			golden := strings.TrimSuffix(file, ".txtpb") + ".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("plan differs from %s; got:\n%s", golden, got)
			}
		})
	}
}

func readObjects(t *testing.T, file string) (*corev1.Service, []*corev1.EndpointSlice) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	svc := &corev1.Service{}
	var slicesOf []*corev1.EndpointSlice
	for i, part := range bytes.Split(text, []byte("\n---\n")) {
		if i == 0 {
			err = prototext.Unmarshal(part, svc)
		} else {
			s := &corev1.EndpointSlice{}
			err = prototext.Unmarshal(part, s)
			slicesOf = append(slicesOf, s)
		}
		if err != nil {
			t.Fatalf("%s, part %d: %v", file, i+1, err)
		}
	}
	return svc, slicesOf
}

// render formats a plan as text.
func render(res plan.Result) string {
	var b strings.Builder
	for i, v := range res.Servers {
		fmt.Fprintf(&b, "%s %s port=%q %s", v.Exposure, v.Key, v.PortName, v.Scheduler)
		if v.Flags != 0 {
			fmt.Fprintf(&b, " %s", v.Flags)
		}
		fmt.Fprintf(&b, " affinity=%s drain=%s masquerade=%s without=%s", v.Affinity, v.Drain, v.Masquerade, v.WithoutBackends)
		if v.Restricted {
			fmt.Fprintf(&b, " only=%v", v.Allowed)
		}
		b.WriteString("\n")
		for _, c := range res.Choices[i] {
			mark := "-"
			if c.Used {
				mark = "+"
			}
			fmt.Fprintf(&b, "  %s %s weight=%d pod=%s: %s\n", mark, c.Addr, c.Weight, c.Pod, c.Reason)
		}
	}
	if res.HealthCheck != nil {
		fmt.Fprintf(&b, "health check: port %d, %d local\n", res.HealthCheck.Port, res.HealthCheck.Local)
	}
	for _, p := range res.Problems {
		fmt.Fprintf(&b, "problem: %s\n", p)
	}
	if b.Len() == 0 {
		return "nothing\n"
	}
	return b.String()
}
