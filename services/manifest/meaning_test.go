package manifest_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/manifest"
	"portolan.dev/services/object"
)

func decode(t *testing.T, text string) []manifest.Document {
	t.Helper()
	documents, err := manifest.Decode(strings.NewReader(text), "test")
	if err != nil {
		t.Fatal(err)
	}
	return documents
}

func encode(t *testing.T, format manifest.Format, objects ...object.Object) string {
	t.Helper()
	var out bytes.Buffer
	encoder := manifest.NewEncoder(&out, format)
	for _, o := range objects {
		if err := encoder.Encode(o); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestDecodedFields checks the fields of a few decoded manifests.
func TestDecodedFields(t *testing.T) {
	first := decode(t, read(t, "testdata/kubernetes-1.27/service.yaml"))[0].Object.(*corev1.Service)
	if p := first.Spec.Ports[0]; first.Spec.Selector["app.kubernetes.io/name"] != "MyApp" || p.Port != 80 || p.TargetPort.GetNumber() != 9376 || p.Protocol != 1 {
		t.Errorf("service: %v", first)
	}
	both := decode(t, read(t, "testdata/kubernetes-1.27/pod-and-named-port.yaml"))
	if len(both) != 2 || both[1].Line != 16 || both[1].Object.(*corev1.Service).Spec.Ports[0].TargetPort.GetName() != "http-web-svc" {
		t.Errorf("pod and named port: %v", both)
	}
	slice := decode(t, read(t, "testdata/kubernetes-1.27/endpointslice.yaml"))[0].Object.(*corev1.EndpointSlice)
	if p := slice.Ports[0]; p.Name == nil || *p.Name != "" || p.GetAppProtocol() != "http" || len(slice.Endpoints[0].Addresses) != 2 {
		t.Errorf("slice: %v", slice)
	}
	endpoints := decode(t, read(t, "testdata/kubernetes-1.1/endpoints.json"))[0].Object.(*corev1.Endpoints)
	if endpoints.Subsets[0].Addresses[0].Ip != "1.2.3.4" || endpoints.Subsets[0].Ports[0].Port != 80 {
		t.Errorf("endpoints: %v", endpoints)
	}
	balanced := decode(t, read(t, "testdata/kubernetes-1.1/loadbalancer.json"))[0].Object.(*corev1.Service)
	if s := balanced.Spec; s.ClusterIp != "10.0.171.239" || s.LoadBalancerIp != "78.11.24.19" || s.Ports[0].NodePort != 30061 ||
		balanced.Status.LoadBalancer.Ingress[0].Ip != "146.148.47.155" {
		t.Errorf("load balancer: %v", balanced)
	}
}
