package nodeagent_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	corev1 "portolan.dev/api/core/v1"
	nodeagentv1 "portolan.dev/api/nodeagent/v1"

	"portolan.dev/nodeagent"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

// checkedPod returns a running pod of the node "here" with a readiness probe.
func checkedPod(name string, probe *corev1.Probe) *corev1.Pod {
	return &corev1.Pod{
		Metadata: &corev1.ObjectMeta{Namespace: "default", Name: name, Uid: "uid-" + name},
		Spec:     &corev1.PodSpec{NodeName: "here", Containers: []*corev1.Container{{Name: "main", ReadinessProbe: probe}}},
		Status:   &corev1.PodStatus{Phase: corev1.PodPhase_POD_PHASE_RUNNING, PodIp: "127.0.0.1"},
	}
}

func execProbe(command ...string) *corev1.Probe {
	return &corev1.Probe{PeriodSeconds: 1, FailureThreshold: 1, TimeoutSeconds: 30, Handler: &corev1.Probe_Exec{Exec: &corev1.ExecAction{Command: command}}}
}

// readiness waits for the Ready condition of a pod to have a status, and a message with a part.
func (w *world) readiness(name string, status corev1.ConditionStatus, part string) {
	w.t.Helper()
	kittest.Eventually(w.t, fmt.Sprintf("%s to be %s with %q", name, status, part), func() error {
		pod, _ := w.log.Get(object.Key{Kind: "Pod", Namespace: "default", Name: name}).(*corev1.Pod)
		c := object.Condition(pod.GetStatus().GetConditions(), object.ConditionReady)
		if c.GetStatus() != status || !strings.Contains(c.GetMessage(), part) {
			return fmt.Errorf("condition %v", c)
		}
		return nil
	})
}

const (
	isReady  = corev1.ConditionStatus_CONDITION_STATUS_TRUE
	notReady = corev1.ConditionStatus_CONDITION_STATUS_FALSE
)

// TestReportCheck renews a ttl check over the agent's API. Renewals write nothing to the registry.
func TestReportCheck(t *testing.T) {
	w := newWorld(t)
	w.log.Put(checkedPod("p", &corev1.Probe{Handler: &corev1.Probe_Ttl{Ttl: &corev1.TTLAction{Seconds: 3600}}}), checkedPod("plain", nil))
	_, client, _ := w.start(w.config())
	report := func(outcome nodeagentv1.CheckOutcome, message string) {
		t.Helper()
		res, err := client.ReportCheck(t.Context(), &nodeagentv1.ReportCheckRequest{Pod: "p", Outcome: outcome, Message: message})
		if err != nil || res.GetTtl().AsDuration() != time.Hour || res.GetTtlSeconds() != 3600 {
			t.Fatalf("%v, %v", res, err)
		}
	}
	w.readiness("p", notReady, "no client has reported yet")
	report(nodeagentv1.CheckOutcome_CHECK_OUTCOME_PASS, "")
	w.readiness("p", isReady, "")
	w.readiness("plain", isReady, "")
	before := w.log.Revision()
	for range 20 {
		report(nodeagentv1.CheckOutcome_CHECK_OUTCOME_PASS, "fine")
	}
	if after := w.log.Revision(); after != before {
		t.Errorf("20 renewals have moved the registry from revision %d to %d", before, after)
	}
	report(nodeagentv1.CheckOutcome_CHECK_OUTCOME_FAIL, "the disk is full")
	w.readiness("p", notReady, "container main: the disk is full")
	report(nodeagentv1.CheckOutcome_CHECK_OUTCOME_PASS, "")
	w.readiness("p", isReady, "")
	if n, _ := w.metric("probes_total", "ttl"); n == 0 {
		t.Error("no report was counted")
	}

	pass := nodeagentv1.CheckOutcome_CHECK_OUTCOME_PASS
	for _, tc := range []struct {
		request *nodeagentv1.ReportCheckRequest
		code    codes.Code
	}{
		{&nodeagentv1.ReportCheckRequest{Outcome: pass}, codes.InvalidArgument},
		{&nodeagentv1.ReportCheckRequest{Pod: "p"}, codes.InvalidArgument},
		{&nodeagentv1.ReportCheckRequest{Pod: "p", Outcome: 7}, codes.InvalidArgument},
		{&nodeagentv1.ReportCheckRequest{Pod: "p", Outcome: pass, Message: strings.Repeat("x", 1025)}, codes.InvalidArgument},
		{&nodeagentv1.ReportCheckRequest{Pod: "p", Namespace: "shop", Outcome: pass}, codes.NotFound},
		{&nodeagentv1.ReportCheckRequest{Pod: "plain", Outcome: pass}, codes.FailedPrecondition},
	} {
		if _, err := client.ReportCheck(t.Context(), tc.request); apierr.Code(err) != tc.code {
			t.Errorf("%v: %v, want %s", tc.request, err, tc.code)
		}
	}
}

// TestExecChecks checks that a script of the agent's folder decides about readiness, and that another
// command is refused, with an Event about the pod.
func TestExecChecks(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { // #nosec G302 -- another user runs the script
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "check"), []byte("#!/bin/sh\ntest \"$PORTOLAN_POD_NAME\" = \"$1\"\n"), 0o755); err != nil { // #nosec G306 -- a script is executable
		t.Fatal(err)
	}
	w := newWorld(t)
	w.log.Put(checkedPod("good", execProbe("check", "good")), checkedPod("bad", execProbe("check", "good")), checkedPod("shell", execProbe("/bin/sh", "-c", "true")))
	cfg := w.config()
	cfg.CheckDir, cfg.CheckUser = dir, "65534:65534"
	w.start(cfg)
	w.readiness("good", isReady, "")
	w.readiness("bad", notReady, "script check: exit status 1")
	w.readiness("shell", notReady, `does not run the script "/bin/sh"`)
	e := w.event("CheckRefused")
	if r := e.GetRegarding(); r.GetKind() != "Pod" || r.GetName() != "shell" || r.GetUid() != "uid-shell" || !strings.Contains(e.GetMessage(), "-check-dir") {
		t.Errorf("event %v", e)
	}
}

// TestCheckUser checks that an agent does not start with scripts that would run as root.
func TestCheckUser(t *testing.T) {
	if os.Geteuid() != 0 {
		return // the user is not used
	}
	w := newWorld(t)
	cfg := w.config()
	cfg.CheckDir, cfg.CheckUser = t.TempDir(), "root"
	if _, err := nodeagent.NewPrepared(cfg, kittest.Host(t, w.network, w.log.URL())); err == nil || !strings.Contains(err.Error(), "check-user") {
		t.Errorf("the error is %v", err)
	}
}
