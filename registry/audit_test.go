package registry_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/audit"
	"portolan.dev/services/kit/kittest"
)

// secret is the value of every field of an object that may hold a secret. No line of the audit log may
// have it.
const secret = "hush-4711"

// audited is a registry with an audit log.
type audited struct {
	*guarded
	log  *audit.Log
	path string
}

func auditing(t *testing.T) *audited {
	t.Helper()
	a := &audited{path: filepath.Join(t.TempDir(), "audit.log")}
	a.guarded = guardWith(t, func(host *app.Host) {
		var err error
		a.log, err = audit.Open(audit.Options{Path: a.path, MaxBytes: 64 << 20, Daemon: "registry", Log: host.Log, Metrics: host.Metrics})
		if err != nil {
			t.Fatal(err)
		}
		host.Audit = a.log
	})
	return a
}

// lines closes the log and returns its lines, without the lines of the daemons' own calls.
func (a *audited) lines() (lines []audit.Entry) {
	a.t.Helper()
	a.log.Close()
	content, err := os.ReadFile(a.path)
	if err != nil {
		a.t.Fatal(err)
	}
	if strings.Contains(string(content), secret) {
		a.t.Errorf("the log has a secret:\n%s", content)
	}
	for text := range strings.Lines(string(content)) {
		var e audit.Entry
		if err := json.Unmarshal([]byte(text), &e); err != nil {
			a.t.Fatal(err)
		}
		lines = append(lines, e)
	}
	return lines
}

// secretPod returns a pod with the secret in every field for the operator's own data.
func secretPod(name string) *corev1.Pod {
	return &corev1.Pod{
		Metadata: &corev1.ObjectMeta{Name: name, Annotations: map[string]string{"note": secret, secret: "x"}, Labels: map[string]string{"app": secret}},
		Spec: &corev1.PodSpec{NodeName: "n1", Containers: []*corev1.Container{{
			Name: "main", Command: []string{"run", secret}, Args: []string{secret}, Env: []*corev1.EnvVar{{Name: "TOKEN", Value: secret}},
			ReadinessProbe: &corev1.Probe{Handler: &corev1.Probe_HttpGet{HttpGet: &corev1.HTTPGetAction{
				Path: "/" + secret, Port: &corev1.IntOrString{Value: &corev1.IntOrString_Number{Number: 80}}, HttpHeaders: []*corev1.HTTPHeader{{Name: "Authorization", Value: secret}},
			}}},
		}}},
		Status: &corev1.PodStatus{Message: secret},
	}
}

// TestAuditLines makes calls one after the other and compares their lines.
func TestAuditLines(t *testing.T) {
	a := auditing(t)
	ctx := within(t)
	operator, agent := a.as("operator"), a.as("nodeagent/n1")
	services, pods := registryv1.NewServiceServiceClient(operator), registryv1.NewPodServiceClient(operator)
	web := &corev1.Service{Metadata: &corev1.ObjectMeta{Name: "web"}, Spec: &corev1.ServiceSpec{ClusterIp: "None", Ports: []*corev1.ServicePort{{Port: 80}}}}
	call := func(err error) { _ = err } // the line has the outcome
	var want []string

	_, err := services.CreateService(ctx, &registryv1.CreateServiceRequest{Service: web, DryRun: true})
	call(err)
	want = append(want, "operator ServiceService/CreateService Service default/web dry OK")
	created, err := services.CreateService(ctx, &registryv1.CreateServiceRequest{Service: web})
	accepted(t, "web", err)
	want = append(want, "operator ServiceService/CreateService Service default/web uid OK revision")
	_, err = services.CreateService(ctx, &registryv1.CreateServiceRequest{Service: web})
	call(err)
	want = append(want, `operator ServiceService/CreateService Service default/web ALREADY_EXISTS: Service "default/web" already exists`)
	_, err = services.UpdateService(ctx, &registryv1.UpdateServiceRequest{Service: created.GetService()})
	call(err)
	want = append(want, "operator ServiceService/UpdateService Service default/web uid OK") // nothing changed
	_, err = services.GetService(ctx, &registryv1.GetServiceRequest{Name: "web"})
	accepted(t, "a read", err) // has no line
	_, err = services.GetService(ctx, &registryv1.GetServiceRequest{Name: "other"})
	call(err)
	want = append(want, `operator ServiceService/GetService Service default/other NOT_FOUND: Service "default/other" not found`)

	_, err = pods.CreatePod(ctx, &registryv1.CreatePodRequest{Pod: secretPod("valid")})
	call(err)
	bad := secretPod("bad")
	bad.Metadata.Labels, bad.Metadata.Annotations = map[string]string{secret + "!": secret + "!"}, map[string]string{secret + "!": "x"}
	bad.Spec.Containers[0].Env[0].Name, bad.Spec.Containers[0].Name, bad.Spec.NodeName = "="+secret, secret+"!", secret+"!"
	_, err = pods.CreatePod(ctx, &registryv1.CreatePodRequest{Pod: bad})
	if err == nil || !strings.Contains(err.Error(), secret) {
		t.Fatalf("the caller's own error does not quote the value, so the test shows nothing: %v", err)
	}
	want = append(want, "operator PodService/CreatePod Pod default/bad INVALID_ARGUMENT: …")

	applied := &corev1.Object{Kind: &corev1.Object_Service{Service: &corev1.Service{
		Metadata: &corev1.ObjectMeta{Name: "applied", Annotations: map[string]string{"note": secret}}, Spec: web.GetSpec(),
	}}}
	apply := registryv1.NewApplyServiceClient(operator)
	for _, outcome := range []string{"dry OK", "uid OK revision", "uid OK"} {
		_, err = apply.Apply(ctx, &registryv1.ApplyRequest{Object: applied, DryRun: strings.HasPrefix(outcome, "dry")})
		accepted(t, "apply", err)
		want = append(want, "operator ApplyService/Apply Service default/applied "+outcome)
	}

	_, err = registryv1.NewServiceServiceClient(agent).CreateService(ctx, &registryv1.CreateServiceRequest{Service: web})
	call(err)
	want = append(want, "nodeagent/n1 ServiceService/CreateService PERMISSION_DENIED: role nodeagent (spiffe://portolan/nodeagent/n1) may not call /portolan.registry.v1.ServiceService/CreateService: use a certificate of the role operator or registrar")
	_, err = registryv1.NewNodeServiceClient(agent).CreateNode(ctx, &registryv1.CreateNodeRequest{Node: &corev1.Node{Metadata: &corev1.ObjectMeta{Name: "n2"}}})
	call(err)
	want = append(want, `nodeagent/n1 NodeService/CreateNode Node n2 PERMISSION_DENIED: role nodeagent (spiffe://portolan/nodeagent/n1) may not write this Node "n2": an agent writes its own Node only; the agent of n2 needs a certificate of nodeagent/n2`)
	watch, err := registryv1.NewServiceServiceClient(agent).WatchServices(ctx, &registryv1.WatchServicesRequest{})
	if err == nil {
		_, err = watch.Recv()
	}
	call(err)
	want = append(want, "nodeagent/n1 ServiceService/WatchServices PERMISSION_DENIED: …")
	snapshot, err := registryv1.NewChangeServiceClient(agent).Snapshot(ctx, &registryv1.SnapshotRequest{})
	accepted(t, "a snapshot", err)
	drain(snapshot)
	want = append(want, "nodeagent/n1 ChangeService/Snapshot OK")
	export, err := registryv1.NewBackupServiceClient(operator).Export(ctx, &registryv1.ExportRequest{})
	accepted(t, "a backup", err)
	drain(export)
	want = append(want, "operator BackupService/Export OK")
	call(operator.Invoke(ctx, "/portolan.registry.v1.ServiceService/None", &emptypb.Empty{}, &emptypb.Empty{}))
	want = append(want, "operator ServiceService/None UNIMPLEMENTED")

	_, err = services.DeleteService(ctx, &registryv1.DeleteServiceRequest{Name: "web"})
	accepted(t, "the deletion", err)
	head, err := registryv1.NewChangeServiceClient(operator).GetHead(ctx, &registryv1.GetHeadRequest{})
	accepted(t, "the head", err)
	want = append(want, "operator ServiceService/DeleteService Service default/web uid OK revision")

	lines := a.lines()
	got := make([]string, 0, len(lines))
	for _, e := range lines {
		if e.Daemon != "registry" || e.Serial == "" || e.Peer == "" || e.Time.IsZero() {
			t.Errorf("incomplete: %+v", e)
		}
		if e.Name != "valid" {
			got = append(got, summarize(e))
		}
	}
	for i := range want {
		if prefix, open := strings.CutSuffix(want[i], "…"); open && i < len(got) && strings.HasPrefix(got[i], prefix) {
			want[i] = got[i]
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if last := lines[len(lines)-1]; last.Revision != head.GetRevision() || last.UID != created.GetService().GetMetadata().GetUid() {
		t.Errorf("the deletion is recorded as %+v, the head is %d", last, head.GetRevision())
	}
}

// summarize returns a line as the test compares it.
func summarize(e audit.Entry) string {
	parts := []string{e.Identity, strings.TrimPrefix(e.Method, "/portolan.registry.v1."), e.Kind}
	parts = append(parts, strings.TrimPrefix(e.Namespace+"/"+e.Name, "/"))
	for _, flag := range []struct {
		set  bool
		text string
	}{{e.DryRun, "dry"}, {e.UID != "" && !e.DryRun, "uid"}} {
		if flag.set {
			parts = append(parts, flag.text)
		}
	}
	code := e.Code
	if e.Reason != "" {
		code += ": " + e.Reason
	}
	parts = append(parts, code)
	if e.Revision != 0 {
		parts = append(parts, "revision")
	}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), " ")
}

// drain reads a stream to its end.
func drain[M any](stream grpc.ServerStreamingClient[M]) {
	for {
		if _, err := stream.Recv(); err != nil {
			return
		}
	}
}

// TestAuditDoesNotWait makes writes while the disk of the audit log is full.
func TestAuditDoesNotWait(t *testing.T) {
	g := guardWith(t, func(host *app.Host) {
		log, err := audit.Open(audit.Options{Path: "/dev/full", MaxBytes: 1 << 20, Daemon: "registry", Log: kittest.Logger(t), Metrics: host.Metrics})
		if err != nil {
			t.Skip(err)
		}
		t.Cleanup(log.Close)
		host.Audit = log
	})
	namespaces := registryv1.NewNamespaceServiceClient(g.as("operator"))
	for _, name := range []string{"a", "b", "c"} {
		_, err := namespaces.CreateNamespace(context.Background(), &registryv1.CreateNamespaceRequest{Namespace: &corev1.Namespace{Metadata: &corev1.ObjectMeta{Name: name}}})
		accepted(t, "a write", err)
	}
}
