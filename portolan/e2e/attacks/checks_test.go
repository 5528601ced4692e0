package attacks

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	corev1 "portolan.dev/api/core/v1"
	nodeagentv1 "portolan.dev/api/nodeagent/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/portolan/e2e/labtest"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

// createRunning creates a pod and reports that it runs, at an address of node n1, so that its agent
// checks it.
func createRunning(t *testing.T, i *labtest.Installation, conn grpc.ClientConnInterface, pod *corev1.Pod) {
	t.Helper()
	pods := registryv1.NewPodServiceClient(conn)
	created, err := pods.CreatePod(t.Context(), &registryv1.CreatePodRequest{Pod: pod})
	if err != nil {
		t.Fatal(err)
	}
	running := created.GetPod()
	running.Metadata.ResourceVersion = 0 // the agent may have written in between
	running.Status = &corev1.PodStatus{Phase: corev1.PodPhase_POD_PHASE_RUNNING, PodIp: i.Nodes[0].Addresses[0].String()}
	if _, err := pods.UpdatePodStatus(t.Context(), &registryv1.UpdatePodStatusRequest{Pod: running}); err != nil {
		t.Fatal(err)
	}
}

// awaitReady waits for the Ready condition of a pod to have a status, and a part of its message.
func awaitReady(t *testing.T, i *labtest.Installation, namespace, name string, want corev1.ConditionStatus, part string) {
	t.Helper()
	kittest.Eventually(t, fmt.Sprintf("pod %s to be %s with %q", name, want, part), func() error {
		res, err := registryv1.NewPodServiceClient(i.Conn).GetPod(t.Context(), &registryv1.GetPodRequest{Namespace: namespace, Name: name})
		if err != nil {
			return err
		}
		c := object.Condition(res.GetPod().GetStatus().GetConditions(), object.ConditionReady)
		if c.GetStatus() != want || !strings.Contains(c.GetMessage(), part) {
			return fmt.Errorf("condition %v", c)
		}
		return nil
	})
}

// TestNobodyRunsProgramsByAPod uses the certificate of a workload to register pods with exec checks that
// name programs of the node. It checks that the node agent, which runs as root, runs none of them.
func TestNobodyRunsProgramsByAPod(t *testing.T) {
	i := install(t)
	const own = "workload/n1/default"
	conn := i.DialAs(i.Issue(own, time.Hour), identity.Registry, i.RegistryAt())
	trace := filepath.Join(t.TempDir(), "trace")
	for name, command := range map[string][]string{
		"shell":  {"/bin/sh", "-c", "touch " + trace},
		"path":   {"touch", trace},
		"parent": {strings.Repeat("../", 7) + "bin/touch", trace},
	} {
		pod := newPod(name, "default", "n1", own)
		pod.Spec.Containers[0].ReadinessProbe = &corev1.Probe{FailureThreshold: 1, PeriodSeconds: 1, Handler: &corev1.Probe_Exec{Exec: &corev1.ExecAction{Command: command}}}
		createRunning(t, i, conn, pod)
		awaitReady(t, i, "default", name, corev1.ConditionStatus_CONDITION_STATUS_FALSE, "does not run the script")
	}
	if _, err := os.Lstat(trace); !os.IsNotExist(err) {
		t.Errorf("the agent has run a program: %v", err)
	}
}

// TestReportsAboutOwnPodsOnly reports the readiness of pods of others.
func TestReportsAboutOwnPodsOnly(t *testing.T) {
	i := install(t)
	if _, err := registryv1.NewNamespaceServiceClient(i.Conn).CreateNamespace(t.Context(), &registryv1.CreateNamespaceRequest{
		Namespace: &corev1.Namespace{Metadata: &corev1.ObjectMeta{Name: "shop"}},
	}); err != nil {
		t.Fatal(err)
	}
	for _, pod := range []*corev1.Pod{newPod("mine", "default", "n1", "workload/n1/default"), newPod("operators", "default", "n1", ""), newPod("shops", "shop", "n1", "workload/n1/shop")} {
		pod.Spec.Containers[0].ReadinessProbe = &corev1.Probe{Handler: &corev1.Probe_Ttl{Ttl: &corev1.TTLAction{Seconds: 3600}}}
		createRunning(t, i, i.Conn, pod)
		awaitReady(t, i, pod.GetMetadata().GetNamespace(), pod.GetMetadata().GetName(), corev1.ConditionStatus_CONDITION_STATUS_FALSE, "no client has reported yet")
	}
	report := func(who, namespace, pod string, outcome nodeagentv1.CheckOutcome) error {
		conn := i.DialAs(i.Issue(who, time.Hour), identity.NodeAgent, netip.AddrPortFrom(i.Nodes[0].Addresses[0], 7404))
		_, err := nodeagentv1.NewNodeAgentServiceClient(conn).ReportCheck(t.Context(), &nodeagentv1.ReportCheckRequest{Namespace: namespace, Pod: pod, Outcome: outcome})
		return err
	}
	const pass = nodeagentv1.CheckOutcome_CHECK_OUTCOME_PASS
	for _, tc := range []struct {
		who, namespace, pod string
		code                codes.Code
	}{
		{"workload/n1/default", "default", "operators", codes.NotFound},
		{"workload/n1/default", "default", "missing", codes.NotFound},
		{"workload/n1/default", "shop", "shops", codes.PermissionDenied},
		{"workload/n1", "default", "mine", codes.NotFound},
		{"workload/n2/default", "default", "mine", codes.NotFound},
		{"operator/shop", "default", "mine", codes.PermissionDenied},
		{"viewer", "default", "mine", codes.PermissionDenied},
		{"nodeagent/n2", "default", "mine", codes.PermissionDenied},
	} {
		if err := report(tc.who, tc.namespace, tc.pod, pass); status.Code(err) != tc.code {
			t.Errorf("%s reports pod %s/%s: %v, want %s", tc.who, tc.namespace, tc.pod, err, tc.code)
		}
	}
	for who, pod := range map[string]string{"workload/n1/default": "mine", "operator": "operators", "operator/shop": "shops"} {
		namespace := "default"
		if pod == "shops" {
			namespace = "shop"
		}
		awaitReady(t, i, namespace, pod, corev1.ConditionStatus_CONDITION_STATUS_FALSE, "")
		if err := report(who, namespace, pod, pass); err != nil {
			t.Errorf("%s reports pod %s: %v", who, pod, err)
		}
		awaitReady(t, i, namespace, pod, corev1.ConditionStatus_CONDITION_STATUS_TRUE, "")
	}
	files := i.Issue("workload/n1/default", time.Hour)
	at := netip.AddrPortFrom(i.Nodes[0].Addresses[0], 7404).String()
	command := labtest.Command(t, "portolan", []string{"--server", i.RegistryAt().String(), "check", "fail", "mine", "--message", "the disk is full", "--agent", at})
	command.Env = append(command.Environ(), "PORTOLAN_TLS_CERT="+files.Cert, "PORTOLAN_TLS_KEY="+files.Key, "PORTOLAN_TLS_CA="+files.CA)
	if out, err := command.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	awaitReady(t, i, "default", "mine", corev1.ConditionStatus_CONDITION_STATUS_FALSE, "the disk is full")
	if out, err := labtest.Command(t, "portolan", []string{"--server", i.RegistryAt().String(), "--certs", i.Certs, "check", "pass", "default/mine"}).CombinedOutput(); err != nil || !strings.Contains(string(out), "within 1h0m0s") {
		t.Errorf("%v\n%s", err, out)
	}
	awaitReady(t, i, "default", "mine", corev1.ConditionStatus_CONDITION_STATUS_TRUE, "")
}
