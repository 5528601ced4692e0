package attacks

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"google.golang.org/grpc"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/portolan/e2e/labtest"
	"portolan.dev/services/kit/identity"
)

// hostileText has a terminal change its title, clear the screen, overwrite the line, reverse the
// following characters, and begin a line that looks like the command's own.
const hostileText = "\x1b]0;owned\a\x1b[2J\u009b2J\rok \u202e dnet \u2066\nn9   Ready"

// TestTextOfAgentsCannotDriveTheTerminal stores text with control characters wherever the agent of
// n1 can write text, and reads it with the operator's commands.
func TestTextOfAgentsCannotDriveTheTerminal(t *testing.T) {
	i := labtest.Install(t, labtest.Options{
		Secured: true, Nodes: []labtest.NodeOptions{{Name: "n1", ProxyMode: "userspace"}},
		Flags: map[string][]string{"endpointctl": {"-node-grace", "10m"}}, // the agent is stopped, and its node stays ready
	})
	node := getNode(t, i.Conn, "n1")
	i.Nodes[0].Process.Stop() // it would write its own status
	conn := i.DialAs(i.Issue("nodeagent/n1", time.Hour), identity.Registry, i.RegistryAt())
	nodes := registryv1.NewNodeServiceClient(conn)
	node.Metadata.ResourceVersion = 0
	node.Status.KernelVersion, node.Status.AgentVersion, node.Status.ProxyMode = hostileText, hostileText, hostileText
	node.Status.Conditions = append(node.Status.Conditions, &corev1.Condition{
		Type: "Odd", Status: corev1.ConditionStatus_CONDITION_STATUS_TRUE, Reason: "Odd", Message: hostileText,
	})
	if _, err := nodes.UpdateNodeStatus(t.Context(), &registryv1.UpdateNodeStatusRequest{Node: node}); err != nil {
		t.Fatal(err)
	}
	if _, err := registryv1.NewEventServiceClient(conn).CreateEvent(t.Context(), &registryv1.CreateEventRequest{Event: &corev1.Event{
		Metadata: &corev1.ObjectMeta{Name: "odd", Namespace: "default", Annotations: map[string]string{"example.com/note": hostileText}},
		Reason:   "Odd", Message: hostileText,
		ReportingComponent: "nodeagent", ReportingInstance: "n1", Regarding: &corev1.ObjectReference{Kind: "Node", Name: "n1"},
	}}); err != nil {
		t.Fatal(err)
	}
	writePodCondition(t, i, conn)
	for _, arguments := range []string{
		"get nodes", "get nodes -o wide", "get node n1 -o yaml", "get node n1 -o json", "get events", "get events -o yaml", "get events -o json",
		"describe node n1", "describe event odd", "describe pod web-1", "explain service web", "explain service web -o json", "node status", "node status -o yaml", "node status -o json",
	} {
		out, err := labtest.Command(t, "portolan", append([]string{"--server", i.RegistryAt().String(), "--certs", i.Certs}, strings.Fields(arguments)...)).CombinedOutput()
		if err != nil && !strings.HasPrefix(arguments, "explain") { // the service does not work
			t.Errorf("%s: %v\n%q", arguments, err, out)
			continue
		}
		if fault := obeyed(string(out)); fault != "" {
			t.Errorf("%s prints %s:\n%q", arguments, fault, out)
		}
		if shows := strings.Contains(string(out), `\u001b]0;owned`); !shows && arguments != "get nodes" && !strings.HasPrefix(arguments, "node status") {
			t.Errorf("%s does not show the text:\n%q", arguments, out)
		}
		if strings.HasSuffix(arguments, "json") && !json.Valid(out) {
			t.Errorf("%s prints no JSON:\n%q", arguments, out)
		}
	}
}

// writePodCondition adds a pod of node n1 behind a service. The agent reports why it is not ready.
func writePodCondition(t *testing.T, i *labtest.Installation, agent grpc.ClientConnInterface) {
	t.Helper()
	pod := newPod("web-1", "default", "n1", "")
	pod.Metadata.Labels = map[string]string{"app": "web"}
	if err := create(t, i.Conn, pod); err != nil {
		t.Fatal(err)
	}
	if _, err := registryv1.NewServiceServiceClient(i.Conn).CreateService(t.Context(), &registryv1.CreateServiceRequest{Service: &corev1.Service{
		Metadata: &corev1.ObjectMeta{Name: "web", Namespace: "default"},
		Spec:     &corev1.ServiceSpec{Selector: pod.GetMetadata().GetLabels(), Ports: []*corev1.ServicePort{{Port: 80}}},
	}}); err != nil {
		t.Fatal(err)
	}
	pod.Status = &corev1.PodStatus{Phase: corev1.PodPhase_POD_PHASE_RUNNING, PodIp: "10.64.0.9", PodIps: []string{"10.64.0.9"}}
	if _, err := registryv1.NewPodServiceClient(i.Conn).UpdatePodStatus(t.Context(), &registryv1.UpdatePodStatusRequest{Pod: pod}); err != nil {
		t.Fatal(err)
	}
	pod.Status.Conditions = []*corev1.Condition{{
		Type: "Ready", Status: corev1.ConditionStatus_CONDITION_STATUS_FALSE, Reason: "Odd", Message: hostileText,
	}}
	if _, err := registryv1.NewPodServiceClient(agent).UpdatePodStatus(t.Context(), &registryv1.UpdatePodStatusRequest{Pod: pod}); err != nil {
		t.Fatal(err)
	}
}

// obeyed returns the first part of an output that a terminal would obey, or "".
func obeyed(out string) string {
	if !utf8.ValidString(out) {
		return "bytes that are no UTF-8"
	}
	for _, r := range out {
		if r != '\n' && !unicode.IsGraphic(r) {
			return fmt.Sprintf("%U", r)
		}
	}
	if strings.Contains(out, "\nn9") {
		return "a line of the attacker's"
	}
	return ""
}
