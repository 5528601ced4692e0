package floods

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

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

// TestAgentCannotFillTheRegistry writes as much as a node agent's certificate allows: large Nodes and
// Events, and many of them. The registry refuses objects that are too large and writes that are too many,
// names the limit, and keeps serving other agents. In the review 300 writes took its memory to 1.8 GB.
func TestAgentCannotFillTheRegistry(t *testing.T) {
	i := install(t)
	conn := i.DialAs(i.Issue("nodeagent/n1", time.Hour), identity.Registry, i.RegistryAt())
	nodes, events := registryv1.NewNodeServiceClient(conn), registryv1.NewEventServiceClient(conn)
	before := memory(t, i, "VmRSS")

	tooLarge(t, "a large Event", createEvent(t, events, strings.Repeat("x", 200<<10)))
	if err := createEvent(t, events, strings.Repeat("x", 2000)); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "message: may not be more than 1024 bytes") {
		t.Errorf("an Event with a long message: %v", err)
	}

	answer, err := nodes.GetNode(t.Context(), &registryv1.GetNodeRequest{Name: "n1"})
	if err != nil {
		t.Fatal(err)
	}
	update := func(n, conditions, size int) error {
		node := answer.GetNode().CloneVT()
		node.Metadata.ResourceVersion = 0
		for i := range conditions {
			node.Status.Conditions = append(node.Status.Conditions, &corev1.Condition{
				Type: fmt.Sprint("Flood", i), Status: corev1.ConditionStatus_CONDITION_STATUS_TRUE, Message: fmt.Sprint(n, strings.Repeat("x", size)),
			})
		}
		_, err := nodes.UpdateNodeStatus(t.Context(), &registryv1.UpdateNodeStatusRequest{Node: node})
		return err
	}
	tooLarge(t, "a large Node", update(0, 1, 1<<20))
	if err := update(0, 1000, 1); status.Code(err) != codes.InvalidArgument && status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a Node with 1000 conditions: %v", err)
	}
	written, refused := 0, error(nil)
	for n := range 3000 {
		if err := update(n, 14, 1000); err != nil {
			refused = err
			continue
		}
		written++
	}
	if status.Code(refused) != codes.ResourceExhausted || !strings.Contains(refused.Error(), "agent-write-bytes") {
		t.Errorf("%d of 3000 writes were taken, the last refusal is: %v", written, refused)
	}
	grown := memory(t, i, "VmRSS") - before
	t.Logf("%d of 3000 writes were taken; the registry's memory grew by %d MiB", written, grown>>10)
	if grown > 200<<10 {
		t.Errorf("the registry's memory grew by %d MiB", grown>>10)
	}

	other := registryv1.NewNodeServiceClient(i.DialAs(i.Issue("nodeagent/n2", time.Hour), identity.Registry, i.RegistryAt()))
	theirs, err := other.GetNode(t.Context(), &registryv1.GetNodeRequest{Name: "n2"})
	if err != nil {
		t.Fatal(err)
	}
	theirs.Node.Metadata.ResourceVersion = 0
	if _, err := other.UpdateNodeStatus(t.Context(), &registryv1.UpdateNodeStatusRequest{Node: theirs.GetNode()}); err != nil {
		t.Errorf("another agent cannot write meanwhile: %v", err)
	}
}

// tooLarge checks that a request was refused because of its size, before it was decoded.
func tooLarge(t *testing.T, what string, err error) {
	t.Helper()
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "at most 20480 are allowed") {
		t.Errorf("%s: %v", what, err)
	}
}

// createEvent writes an Event in the name of the agent of n1.
func createEvent(t *testing.T, events registryv1.EventServiceClient, message string) error {
	t.Helper()
	_, err := events.CreateEvent(t.Context(), &registryv1.CreateEventRequest{Event: &corev1.Event{
		Metadata: &corev1.ObjectMeta{GenerateName: "flood-", Namespace: "default"},
		Reason:   "Flood", Message: message, ReportingComponent: "nodeagent", ReportingInstance: "n1",
		Regarding: &corev1.ObjectReference{Kind: "Node", Name: "n1"},
	}})
	return err
}

// TestAgentCannotPushOutEventsAndChanges writes Events with a node agent's certificate for as long
// as its rate allows, with budgets that this exceeds. An Event of another writer stays, and the log
// and the stream keep their budgets. The other agent follows the changes all the while.
func TestAgentCannotPushOutEventsAndChanges(t *testing.T) {
	const perWriter, logBudget = 20, 1 << 20
	i := labtest.Install(t, labtest.Options{
		Secured: true, Nodes: []labtest.NodeOptions{{Name: "n1", ProxyMode: "userspace"}, {Name: "n2", ProxyMode: "userspace"}},
		Flags: map[string][]string{"registry": {
			"-max-events", "100", "-max-events-per-writer", fmt.Sprint(perWriter), "-log-bytes", "1", "-reap-interval", "200ms",
		}},
	})
	operators := registryv1.NewEventServiceClient(i.Conn)
	if _, err := operators.CreateEvent(t.Context(), &registryv1.CreateEventRequest{Event: &corev1.Event{
		Metadata: &corev1.ObjectMeta{Name: "other", Namespace: "default"}, Reason: "Other", Regarding: &corev1.ObjectReference{Kind: "Node", Name: "n2"},
	}}); err != nil {
		t.Fatal(err)
	}
	conn := i.DialAs(i.Issue("nodeagent/n1", time.Hour), identity.Registry, i.RegistryAt())
	events, refused := registryv1.NewEventServiceClient(conn), error(nil)
	for n := 0; refused == nil && n < 10_000; n++ {
		refused = createEvent(t, events, fmt.Sprint(n, strings.Repeat("x", 1000)))
	}
	if status.Code(refused) != codes.ResourceExhausted || !strings.Contains(refused.Error(), "agent-write-rate") {
		t.Errorf("the Events end with %v", refused)
	}
	kittest.Eventually(t, "the budget of Events", func() error {
		list, err := operators.ListEvents(t.Context(), &registryv1.ListEventsRequest{})
		if err != nil {
			return err
		}
		mine, others := 0, 0
		for _, event := range list.GetEvents() {
			if event.GetReason() == "Flood" {
				mine++
			} else if event.GetReason() == "Other" {
				others++
			}
		}
		if mine > perWriter || others != 1 {
			return fmt.Errorf("%d Events of the attacker, %d others", mine, others)
		}
		return nil
	})
	kittest.Eventually(t, "the budget of the log", func() error {
		size := i.Metric("registry", "portolan_registry_log_bytes")
		if dropped := i.Metric("registry", `portolan_registry_log_pruned_total{limit="log-bytes"}`); dropped == 0 || size > logBudget {
			return fmt.Errorf("the log has %v bytes, %v changes were deleted early", size, dropped)
		}
		return nil
	})
	if size := i.Metric("registry", "portolan_changes_relay_stream_bytes"); size > logBudget {
		t.Errorf("the stream has %v bytes", size)
	}
	head, err := registryv1.NewChangeServiceClient(i.Conn).GetHead(t.Context(), &registryv1.GetHeadRequest{})
	if err != nil {
		t.Fatal(err)
	}
	kittest.Eventually(t, "the other agent", func() error {
		answer, err := i.Nodes[1].Agent.GetStatus(t.Context(), &nodeagentv1.GetStatusRequest{})
		if err == nil && answer.GetAppliedRevision() < head.GetRevision() {
			err = fmt.Errorf("n2 is at %d, the registry at %d", answer.GetAppliedRevision(), head.GetRevision())
		}
		return err
	})
}

// TestWorkloadCannotFillTheRegistry registers pods with a workload's certificate until its limit,
// and then writes one of them as fast as it can.
func TestWorkloadCannotFillTheRegistry(t *testing.T) {
	i := labtest.Install(t, labtest.Options{
		Secured: true, Nodes: []labtest.NodeOptions{{Name: "n1", ProxyMode: "userspace"}},
		Flags: map[string][]string{"registry": {"-max-pods-per-workload", "5"}},
	})
	const own = "workload/n1/default"
	pods := registryv1.NewPodServiceClient(i.DialAs(i.Issue(own, time.Hour), identity.Registry, i.RegistryAt()))
	create := func(pods registryv1.PodServiceClient, name, owner string) error {
		_, err := pods.CreatePod(t.Context(), &registryv1.CreatePodRequest{Pod: podOf(owner, name)})
		return err
	}
	for n := range 5 {
		if err := create(pods, fmt.Sprint("p", n), own); err != nil {
			t.Fatal(err)
		}
	}
	if err := create(pods, "p5", own); status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "max-pods-per-workload") {
		t.Errorf("a sixth pod: %v", err)
	}
	pod, refused := podOf(own, "p0"), error(nil)
	for n := 0; refused == nil && n < 1000; n++ {
		pod.Metadata.Labels = map[string]string{"n": strconv.Itoa(n)}
		_, refused = pods.UpdatePod(t.Context(), &registryv1.UpdatePodRequest{Pod: pod})
	}
	if status.Code(refused) != codes.ResourceExhausted || !strings.Contains(refused.Error(), "workload-write-rate allows 10 writes per second") {
		t.Errorf("the writes end with %v", refused)
	}
	if err := create(registryv1.NewPodServiceClient(i.Conn), "operators", ""); err != nil {
		t.Errorf("an operator cannot write meanwhile: %v", err)
	}
}

// podOf returns a pod on n1 that a workload has registered.
func podOf(workload, name string) *corev1.Pod {
	return &corev1.Pod{
		Metadata: &corev1.ObjectMeta{Name: name, Namespace: "default", Annotations: map[string]string{object.AnnotationWorkload: workload}},
		Spec:     &corev1.PodSpec{NodeName: "n1", Containers: []*corev1.Container{{Name: "main"}}},
	}
}
