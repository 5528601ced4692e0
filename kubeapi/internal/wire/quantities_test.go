package wire_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	kubev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"

	"portolan.dev/kubeapi/internal/wire"
)

// atOnce fails the test if fn takes long.
func atOnce(t *testing.T, what string, fn func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		fn()
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatalf("%s takes more than a minute", what)
	}
}

// TestLongQuantitiesAreRefused checks that a quantity on which Kubernetes' decoder computes without end is refused
// at once, in each encoding and wherever an object has quantities, and that the same text elsewhere is no mistake.
func TestLongQuantitiesAreRefused(t *testing.T) {
	const long = "123456789012345678901e9999999999"
	node, pod := kubev1.SchemeGroupVersion.WithKind("Node"), kubev1.SchemeGroupVersion.WithKind("Pod")
	refused := map[string]string{
		"status":            `{"status":{"capacity":{"cpu":"` + long + `"}}}`,
		"a number":          `{"status":{"capacity":{"cpu":` + long + `}}}`,
		"negative":          `{"status":{"allocatable":{"cpu":"123456789012345678901e-9999999999"}}}`,
		"first of two":      `{"status":{"capacity":{"cpu":"` + long + `","cpu":"1"}}}`,
		"after a mistake":   `{"status":{"conditions":{"type":["x"]},"capacity":{"cpu":"` + long + `"}}}`,
		"capacity is twice": `{"status":{"capacity":{"cpu":"` + long + `"},"capacity":{}}}`,
		"many digits":       `{"status":{"capacity":{"cpu":"` + strings.Repeat("9", 1<<20) + `"}}}`,
	}
	for name, body := range refused {
		atOnce(t, name, func() {
			_, err := wire.Decode([]byte(body), wire.JSON, node, &kubev1.Node{})
			if err == nil || !strings.Contains(err.Error(), "cannot be handled as a Node: status.") || !strings.Contains(err.Error(), "must be a quantity such as 2, 500m or 64Mi") {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	atOnce(t, "YAML", func() {
		body := "spec:\n  containers:\n  - {name: a, resources: {limits: {cpu: '" + long + "'}}}\n"
		if _, err := wire.Decode([]byte(body), wire.YAML, pod, &kubev1.Pod{}); err == nil || !strings.Contains(err.Error(), "spec.containers.resources.limits.cpu") {
			t.Errorf("YAML: %v", err)
		}
	})
	for name, quantity := range map[string][]byte{
		"protobuf": field(1, []byte(long)), "protobuf with more fields": append(field(7, nil), append(field(1, []byte("1")), field(1, []byte(long))...)...),
	} {
		atOnce(t, name, func() {
			entry := append(field(1, []byte("cpu")), field(2, quantity)...)
			_, err := wire.Decode(envelope(t, field(3, field(2, entry))), wire.Protobuf, node, &kubev1.Node{})
			if err == nil || !strings.Contains(err.Error(), "status.allocatable: must be a quantity") {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	for name, body := range map[string]string{
		"an annotation": `{"metadata":{"name":"5e93841","annotations":{"a":"` + long + `"}},"status":{"capacity":{"cpu":"12e2","memory":"1Gi"}}}`,
		"a field twice": `{"status":{"nodeInfo":{"bootID":"1e123456"},"capacity":{"cpu":2}}}`,
	} {
		var got kubev1.Node
		if _, err := wire.Decode([]byte(body), wire.JSON, node, &got); err != nil || got.Status.Capacity.Cpu().IsZero() {
			t.Errorf("%s: %v", name, err)
		}
		text, err := (&wire.Format{MediaType: wire.Protobuf}).Encode(&got)
		if err != nil {
			t.Fatal(err)
		}
		var again kubev1.Node
		if _, err := wire.Decode(text, wire.Protobuf, node, &again); err != nil || again.Status.Capacity.Cpu().Cmp(got.Status.Capacity[kubev1.ResourceCPU]) != 0 {
			t.Errorf("%s, in protobuf: %v", name, err)
		}
	}
}

// field encodes a field of a message.
func field(number protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), value)
}

// envelope returns the body with the message of a Node.
func envelope(t *testing.T, message []byte) []byte {
	t.Helper()
	text, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "Node"}, Raw: message}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return append([]byte("k8s\x00"), text...)
}

// FuzzQuantities checks that a body that is not refused has only quantities of a bounded size.
func FuzzQuantities(f *testing.F) {
	f.Add([]byte(`{"status":{"capacity":{"cpu":"1e9999"}}}`), false)
	f.Add([]byte(`{"status":{"capacity":[{"cpu":"1e9999"}],"allocatable":{"a":1e1234}}}`), false)
	f.Add(append([]byte("k8s\x00"), 0x12, 4, 0x1a, 2, 0x0a, 0), true)
	f.Fuzz(func(t *testing.T, body []byte, protobuf bool) {
		mediaType := wire.JSON
		if protobuf {
			mediaType = wire.Protobuf
		}
		var node kubev1.Node
		atOnce(t, "decoding", func() {
			if _, err := wire.Decode(body, mediaType, kubev1.SchemeGroupVersion.WithKind("Node"), &node); err != nil {
				return
			}
			for _, list := range []map[kubev1.ResourceName]resource.Quantity{node.Status.Capacity, node.Status.Allocatable} {
				for name, quantity := range list {
					if text := quantity.String(); len(text) > 2000 {
						t.Errorf("%s has %d bytes", name, len(text))
					}
				}
			}
		})
	})
}
