package workload

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	corev1 "portolan.dev/api/core/v1"
)

func TestParsePort(t *testing.T) {
	tcp, udp := corev1.Protocol_PROTOCOL_TCP, corev1.Protocol_PROTOCOL_UDP
	for text, want := range map[string]*corev1.ContainerPort{
		"http=8080": {Name: "http", ContainerPort: 8080, Protocol: tcp}, "53/udp": {ContainerPort: 53, Protocol: udp}, "dns=53/UDP": {Name: "dns", ContainerPort: 53, Protocol: udp},
		"http": nil, "http=0": nil, "http=65536": nil, "http=80/QUIC": nil, "": nil,
	} {
		got, err := parsePort(text)
		if want == nil && (err == nil || !strings.Contains(err.Error(), text)) {
			t.Errorf("%q: got %v, %v; want an error that names it", text, got, err)
		}
		if want != nil && !cmp.Equal(got, want, protocmp.Transform()) {
			t.Errorf("%q: got %v, %v", text, got, err)
		}
	}
}

func TestPod(t *testing.T) {
	options := Options{Command: []string{"/usr/bin/My_Server.sh"}, Labels: map[string]string{"app": "web"}, Ports: []string{"http=8080"}, ReadyHTTP: "http/healthz", DrainDelay: 500 * time.Millisecond, Grace: 5 * time.Second}
	pod, err := options.pod()
	if err != nil {
		t.Fatal(err)
	}
	if got := pod.GetMetadata().GetGenerateName(); got != "my-server-sh-" {
		t.Errorf("the pod's name begins with %q", got)
	}
	probe := pod.GetSpec().GetContainers()[0].GetReadinessProbe().GetHttpGet()
	if probe.GetPath() != "/healthz" || probe.GetPort().GetName() != "http" {
		t.Errorf("probe %v", probe)
	}
	if grace := pod.GetSpec().GetTerminationGracePeriodSeconds(); grace != 7 {
		t.Errorf("the pod has %d s to end, want those of draining and stopping, rounded up, and one", grace)
	}
}

func TestPodFaults(t *testing.T) {
	options := Options{Command: []string{"x"}, Ports: []string{"bad", "worse=-1"}, ReadyTCP: "80", ReadyHTTP: "80/"}
	_, err := options.pod()
	for _, want := range []string{"bad", "worse=-1", "--ready-tcp"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error %v does not name %q", err, want)
		}
	}
}
