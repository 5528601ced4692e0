package workload

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/probe"
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

// TestReadiness checks the probes of the flags. Those that are given without a period ask each second.
func TestReadiness(t *testing.T) {
	for _, tc := range []struct {
		options Options
		want    string // as probe.Parse reads it
	}{
		{Options{ReadyTCP: "db"}, "tcp://:db period=1s"},
		{Options{ReadyHTTP: "8080/healthz"}, "http://:8080/healthz period=1s"},
		{Options{ReadyHTTP: "web"}, "http://:web/ period=1s"},
		{Options{ReadyGRPC: "9000"}, "grpc://:9000 period=1s"},
		{Options{Ready: "https://:8443/x period=5s failures=2"}, "https://:8443/x period=5s failures=2"},
		{Options{Ready: "exec:check-db a"}, "exec:check-db a period=1s"},
		{Options{Ready: "ttl:30s"}, "ttl:30s"},
	} {
		tc.options.Command = []string{"x"}
		pod, err := tc.options.pod()
		if err != nil {
			t.Errorf("%+v: %v", tc.options, err)
			continue
		}
		want, err := probe.Parse(tc.want)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, pod.GetSpec().GetContainers()[0].GetReadinessProbe(), protocmp.Transform()); diff != "" {
			t.Errorf("%+v: %s", tc.options, diff)
		}
	}
	for flag, options := range map[string]Options{"--ready: ": {Ready: "x"}, "--ready-grpc: ": {ReadyGRPC: "api"}, "--ready-tcp: ": {ReadyTCP: "a_b"}, "only one": {Ready: "ttl:1s", ReadyTCP: "1"}} {
		options.Command = []string{"x"}
		if _, err := options.pod(); err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("%+v: the error is %v, want %q", options, err, flag)
		}
	}
}
