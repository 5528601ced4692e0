package attacks

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/portolan/e2e/labtest"
	"portolan.dev/services/kinds"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

// keyText is part of the key in every Secret of these tests.
const keyText = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSj"

// newSecrets stores a certificate with its key and another Secret, both with a text to look for.
func newSecrets(t *testing.T, i *labtest.Installation) {
	t.Helper()
	files := i.Issue("monitor/web", time.Hour)
	data := map[string][]byte{"note": []byte(keyText)}
	for name, file := range map[string]string{"tls.crt": files.Cert, "tls.key": files.Key} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		data[name] = text
	}
	secrets := registryv1.NewSecretServiceClient(i.Conn)
	for _, secret := range []*corev1.Secret{
		{Metadata: &corev1.ObjectMeta{Name: "cert"}, Type: "kubernetes.io/tls", Data: data},
		{Metadata: &corev1.ObjectMeta{Name: "password"}, Data: map[string][]byte{"password": []byte(keyText)}},
		{Metadata: &corev1.ObjectMeta{Name: "deleted"}, Data: map[string][]byte{"password": []byte(keyText)}},
	} {
		if _, err := secrets.CreateSecret(t.Context(), &registryv1.CreateSecretRequest{Secret: secret}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := secrets.DeleteSecret(t.Context(), &registryv1.DeleteSecretRequest{Name: "deleted"}); err != nil {
		t.Fatal(err)
	}
}

// secretsIn returns the names of the Secrets among objects.
func secretsIn(objects []object.Object) []string {
	var names []string
	for _, o := range objects {
		if secret, ok := o.(*corev1.Secret); ok {
			names = append(names, secret.GetMetadata().GetName())
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// TestOnlyOperatorsAndEdgesReadSecrets looks for Secrets with the certificate of every role that may
// call the registry, by every method that reads objects, and over NATS. The audit log of the registry
// has no part of them.
func TestOnlyOperatorsAndEdgesReadSecrets(t *testing.T) {
	audit := filepath.Join(t.TempDir(), "audit.log")
	i := labtest.Install(t, labtest.Options{
		Secured: true, Nodes: []labtest.NodeOptions{{Name: "n1", ProxyMode: "userspace"}},
		Flags: map[string][]string{"registry": {"-audit-log", audit}},
	})
	heard := listen(t, i, i.Issue("nodeagent/n1", time.Hour))
	newSecrets(t, i)
	if err := create(t, i.Conn, newPod("marker", "default", "n1", "")); err != nil {
		t.Fatal(err)
	}
	for _, who := range []string{"viewer", "viewer/default", "nodeagent/n1", "workload/n1/default", "registrar/n1", "allocator", "endpointctl", "lbctl", "dnssvc", "edge/n1"} {
		t.Run(who, func(t *testing.T) {
			conn := i.DialAs(i.Issue(who, time.Hour), identity.Registry, i.RegistryAt())
			readsNoSecret(t, conn)
			if who == "viewer/default" || who == "workload/n1/default" { // neither reads the log
				return
			}
			var want []string
			if who == "edge/n1" {
				want = []string{"cert"}
			}
			if got := secretsIn(snapshotObjects(t, conn)); !slices.Equal(got, want) {
				t.Errorf("the snapshot has the Secrets %q, want %q", got, want)
			}
			if got := secretsIn(changesOf(t, conn)); !slices.Equal(got, want) {
				t.Errorf("the log has the Secrets %q, want %q", got, want)
			}
		})
	}
	noSecretOnNATS(t, heard)
	for _, who := range []string{"operator", "operator/default"} {
		conn := i.DialAs(i.Issue(who, time.Hour), identity.Registry, i.RegistryAt())
		answer, err := registryv1.NewSecretServiceClient(conn).GetSecret(t.Context(), &registryv1.GetSecretRequest{Name: "password"})
		if err != nil || string(answer.GetSecret().GetData()["password"]) != keyText {
			t.Errorf("%s: %v", who, err)
		}
	}
	i.Processes["registry"].Stop()
	text, err := os.ReadFile(audit)
	if err != nil || bytes.Contains(text, []byte(keyText)) || !bytes.Contains(text, []byte("CreateSecret")) || !bytes.Contains(text, []byte(`SecretService/GetSecret`)) {
		t.Errorf("the audit log has a key, or does not say who read one: %v", err)
	}
}

// readsNoSecret calls the methods of Secrets.
func readsNoSecret(t *testing.T, conn grpc.ClientConnInterface) {
	t.Helper()
	kind, _ := kinds.Named("Secret")
	for verb := range verbs(kind) {
		o := &corev1.Secret{Metadata: &corev1.ObjectMeta{Name: "cert"}}
		if err := call(t, conn, kind, verb, o, map[string]string{"namespace": "default", "name": "cert"}); status.Code(err) != codes.PermissionDenied {
			t.Errorf("%s of Secrets: %v", verb, err)
		}
	}
}

// noSecretOnNATS waits for the change of the pod that was created after the Secrets, and checks the
// messages before it.
func noSecretOnNATS(t *testing.T, heard <-chan *nats.Msg) {
	t.Helper()
	var all []*nats.Msg
	kittest.Eventually(t, "the change of the pod", func() error {
		for len(heard) > 0 {
			all = append(all, <-heard)
		}
		if !slices.ContainsFunc(all, func(m *nats.Msg) bool { return bytes.Contains(m.Data, []byte("marker")) }) {
			return fmt.Errorf("%d messages, not that one", len(all))
		}
		return nil
	})
	secrets := 0
	for _, m := range all {
		if bytes.Contains(m.Data, []byte(keyText)) {
			t.Errorf("NATS: %s has a key", m.Subject)
		}
		if bytes.Contains([]byte(m.Subject), []byte(".Secret.")) {
			secrets++
		}
	}
	if secrets < 4 {
		t.Errorf("NATS: %d messages tell of Secrets, so the test has heard nothing", secrets)
	}
}

// TestEdgeReadsWhatItServesOnly reads and writes with the certificate of an edge.
func TestEdgeReadsWhatItServesOnly(t *testing.T) {
	i := install(t)
	newSecrets(t, i)
	if err := create(t, i.Conn, newSecretPod("theirs", "n2")); err != nil {
		t.Fatal(err)
	}
	conn := i.DialAs(i.Issue("edge/n1", time.Hour), identity.Registry, i.RegistryAt())
	for where, objects := range map[string][]object.Object{"the snapshot": snapshotObjects(t, conn), "the log": changesOf(t, conn)} {
		nodes := 0
		for _, o := range objects {
			switch o := o.(type) {
			case *corev1.Node:
				nodes++
			case *corev1.Secret:
				if o.GetType() != "kubernetes.io/tls" {
					t.Errorf("%s has the Secret %s", where, o.GetMetadata().GetName())
				}
			case *corev1.Service, *corev1.EndpointSlice, *corev1.Revocation:
			default:
				t.Errorf("%s has a %s", where, object.KindOf(o))
			}
		}
		if nodes < 2 {
			t.Errorf("%s has %d Nodes", where, nodes)
		}
	}
	event := func(component, instance string) error {
		_, err := registryv1.NewEventServiceClient(conn).CreateEvent(t.Context(), &registryv1.CreateEventRequest{Event: &corev1.Event{
			Metadata: &corev1.ObjectMeta{GenerateName: "web-"}, Regarding: &corev1.ObjectReference{Kind: "Service", Name: "web"},
			Reason: "Test", Type: corev1.EventType_EVENT_TYPE_NORMAL, ReportingComponent: component, ReportingInstance: instance,
		}})
		return err
	}
	if err := event("edge", "n1"); err != nil {
		t.Errorf("an Event in its own name: %v", err)
	}
	for _, other := range [][2]string{{"edge", "n2"}, {"edge", ""}, {"nodeagent", "n1"}} {
		if err := event(other[0], other[1]); status.Code(err) != codes.PermissionDenied {
			t.Errorf("an Event of %q: %v", other, err)
		}
	}
	for _, o := range objectsOf("default") {
		kind, _ := kinds.Named(object.KindOf(o))
		for verb, writes := range verbs(kind) {
			fields := map[string]string{"namespace": "default", "name": o.GetMetadata().GetName()}
			if err := call(t, conn, kind, verb, o, fields); writes && status.Code(err) != codes.PermissionDenied {
				t.Errorf("%s of a %s: %v", verb, kind.Name, err)
			}
		}
	}
}
