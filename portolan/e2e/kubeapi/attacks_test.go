package kubeapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/timestamppb"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/kittest"
)

// TestKubeAPIActsForItsClientsOnly calls the registry with the certificate of a kubeapi that was stolen.
func TestKubeAPIActsForItsClientsOnly(t *testing.T) {
	i := install(t, true)
	stolen, operator := i.dial("kubeapi"), i.dial("operator")
	type call func(ctx context.Context) error
	create := func(name string) call {
		return func(ctx context.Context) error {
			_, err := registryv1.NewNamespaceServiceClient(stolen).CreateNamespace(ctx, &registryv1.CreateNamespaceRequest{Namespace: &corev1.Namespace{Metadata: &corev1.ObjectMeta{Name: name}}})
			return err
		}
	}
	calls := map[string]call{
		"Head": func(ctx context.Context) error {
			_, err := registryv1.NewChangeServiceClient(stolen).GetHead(ctx, &registryv1.GetHeadRequest{})
			return err
		},
		"Create": create("made"), "Create again": create("made-2"),
		"Apply": func(ctx context.Context) error {
			_, err := registryv1.NewApplyServiceClient(stolen).Apply(ctx, &registryv1.ApplyRequest{})
			return err
		},
		"Bulk": func(ctx context.Context) error {
			_, err := registryv1.NewBulkServiceClient(stolen).Write(ctx, &registryv1.WriteRequest{})
			return err
		},
		"Export": func(ctx context.Context) error {
			stream, err := registryv1.NewBackupServiceClient(stolen).Export(ctx, &registryv1.ExportRequest{})
			if err == nil {
				_, err = stream.Recv()
			}
			return err
		},
		"Renew": func(ctx context.Context) error {
			_, err := registryv1.NewCertificateServiceClient(stolen).Renew(ctx, &registryv1.RenewRequest{})
			return err
		},
		"DeleteRevocation": func(ctx context.Context) error {
			_, err := registryv1.NewRevocationServiceClient(stolen).DeleteRevocation(ctx, &registryv1.DeleteRevocationRequest{Name: "x"})
			return err
		},
		"Watch": func(ctx context.Context) error {
			stream, err := registryv1.NewServiceServiceClient(stolen).WatchServices(ctx, &registryv1.WatchServicesRequest{})
			if err == nil {
				_, err = stream.Recv()
			}
			return err
		},
		"List": func(ctx context.Context) error {
			_, err := registryv1.NewServiceServiceClient(stolen).ListServices(ctx, &registryv1.ListServicesRequest{})
			return err
		},
		"List as operator": func(ctx context.Context) error {
			_, err := registryv1.NewServiceServiceClient(operator).ListServices(ctx, &registryv1.ListServicesRequest{})
			return err
		},
	}
	const refused, unknown = codes.PermissionDenied, codes.Unauthenticated
	for _, c := range []struct {
		as, call string
		want     codes.Code
	}{
		{"", "Head", codes.OK},
		{"", "Create", refused},
		{"", "List", refused},
		{"operator", "List", codes.OK},
		{"operator", "Create", codes.OK},
		{"viewer", "List", codes.OK},
		{"viewer", "Create again", refused},
		{"operator/shop", "Create again", refused},
		{"operator", "Apply", refused},
		{"operator", "Bulk", refused},
		{"operator", "Export", refused},
		{"operator", "Renew", refused},
		{"operator", "DeleteRevocation", refused},
		{"operator", "Watch", refused},
		{"operator", "Head", refused},
		{"registry", "Create again", refused},
		{"kubeapi", "Create again", refused},
		{"endpointctl", "Create again", refused},
		{"nodeagent/n1", "List", refused},
		{"lbctl", "Bulk", refused},
		{"", "List as operator", codes.OK},
		{"operator", "List as operator", refused}, // only kubeapi may act for others, and other roles not even for themselves
		{"viewer", "List as operator", refused},
		{"god", "Create again", unknown},
		{"operator/../x", "Create again", unknown},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		if c.as != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, identity.BehalfHeader, c.as)
		}
		if err := calls[c.call](ctx); apierr.Code(err) != c.want {
			t.Errorf("%s for %q: %v, want %s", c.call, c.as, err, c.want)
		}
		cancel()
	}
	twice := metadata.AppendToOutgoingContext(t.Context(), identity.BehalfHeader, "viewer", identity.BehalfHeader, "operator")
	if err := calls["List"](twice); apierr.Code(err) != unknown {
		t.Errorf("two identities: %v", err)
	}
}

// TestClientsHaveTheirOwnRights sends requests with certificates of several roles.
func TestClientsHaveTheirOwnRights(t *testing.T) {
	i := install(t, true)
	for _, namespace := range []string{"shop", "other"} {
		if a := i.send(http.MethodPost, "/api/v1/namespaces", `{"metadata":{"name":"`+namespace+`"}}`); a.code != http.StatusCreated {
			t.Fatalf("%+v", a)
		}
		if a := i.send(http.MethodPost, "/api/v1/namespaces/"+namespace+"/services", web); a.code != http.StatusCreated {
			t.Fatalf("%+v", a)
		}
	}
	const services, named = "/api/v1/services", `{"metadata":{"name":"two"},"spec":{"ports":[{"port":80}]}}`
	for _, c := range []struct {
		who, method, path, body string
		code                    int
		has, hasNot             string
	}{
		{"viewer", "GET", services, "", 200, `"namespace":"other"`, ""},
		{"viewer", "POST", "/api/v1/namespaces/shop/services", named, 403, "may not call", ""},
		{"viewer", "DELETE", "/api/v1/namespaces/shop/services/web", "", 403, "", ""},
		{"viewer", "PATCH", "/api/v1/namespaces/shop/services/web", `{}`, 403, "", ""},
		{"viewer/shop", "GET", services, "", 200, `"namespace":"shop"`, `"namespace":"other"`},
		{"viewer/shop", "GET", services + "?watch=1&timeoutSeconds=1", "", 200, `"namespace":"shop"`, `"namespace":"other"`},
		{"viewer/shop", "GET", services + "?resourceVersion=0", "", 200, `"namespace":"shop"`, `"namespace":"other"`},
		{"viewer/shop", "GET", "/api/v1/namespaces/other/services?resourceVersion=0", "", 403, "", ""},
		{"viewer/shop", "GET", "/api/v1/nodes?resourceVersion=0", "", 403, "", ""},
		{"workload/n1", "GET", services + "?resourceVersion=0", "", 403, "", ""},
		{"viewer/shop", "GET", "/api/v1/namespaces/other/services/web", "", 403, "", ""},
		{"viewer/shop", "GET", "/api/v1/namespaces/other/services?watch=1&timeoutSeconds=1", "", 403, "", ""},
		{"viewer/shop", "GET", "/api/v1/nodes?watch=1&timeoutSeconds=1", "", 403, "", ""},
		{"operator/shop", "POST", "/api/v1/namespaces/shop/services", named, 201, "", ""},
		{"operator/shop", "POST", "/api/v1/namespaces/other/services", named, 403, "", ""},
		{"operator/shop", "POST", "/api/v1/namespaces", `{"metadata":{"name":"x"}}`, 403, "", ""},
		{"workload/n1", "GET", services, "", 403, "", ""},
		{"workload/n1", "GET", "/api/v1/pods", "", 200, "PodList", ""},
		{"nodeagent/n1", "GET", services, "", 403, "API of Kubernetes", ""},
		{"registry", "GET", services, "", 403, "API of Kubernetes", ""},
		{"kubeapi", "GET", services, "", 403, "API of Kubernetes", ""},
	} {
		a := i.sendAs(i.as(c.who), c.method, c.path, c.body, "Content-Type", contentType(c.method))
		if a.code != c.code || !strings.Contains(a.body, c.has) || c.hasNot != "" && strings.Contains(a.body, c.hasNot) {
			t.Errorf("%s %s %s: %d %s, want %d with %q, without %q", c.who, c.method, c.path, a.code, a.body, c.code, c.has, c.hasNot)
		}
		if a.code >= 400 && a.object(t).GetKind() != "Status" {
			t.Errorf("%s %s %s: no Status: %s", c.who, c.method, c.path, a.body)
		}
	}
}

func contentType(method string) string {
	if method == http.MethodPatch {
		return "application/merge-patch+json"
	}
	return "application/json"
}

// TestWatchEndsWithItsCertificate revokes the certificate of a client that watches.
func TestWatchEndsWithItsCertificate(t *testing.T) {
	i := install(t, true)
	events := i.watch(i.as("viewer"), "/api/v1/services")
	revocation := &corev1.Revocation{Metadata: &corev1.ObjectMeta{Name: "viewer"}, Spec: &corev1.RevocationSpec{Identity: "viewer", IssuedBefore: timestamppb.New(time.Now().Add(time.Minute))}}
	if _, err := registryv1.NewRevocationServiceClient(i.dial("operator")).CreateRevocation(t.Context(), &registryv1.CreateRevocationRequest{Revocation: revocation}); err != nil {
		t.Fatal(err)
	}
	event := kittest.Receive(t, "the last event", events)
	var status struct{ Code int }
	if err := json.Unmarshal(event.Object, &status); err != nil || event.Type != "ERROR" || status.Code != http.StatusUnauthorized {
		t.Errorf("%s %s, %v", event.Type, event.Object, err)
	}
}

// TestAuditNamesTheClient checks that the registry's audit log has the client of a write, and that
// kubeapi made the call.
func TestAuditNamesTheClient(t *testing.T) {
	i := install(t, true)
	i.must("POST", services, service("web", "x"))
	if a := i.sendAs(i.as("viewer"), "DELETE", services+"/web", ""); a.code != http.StatusForbidden {
		t.Fatalf("%+v", a)
	}
	kittest.Eventually(t, "the lines of the audit log", func() error {
		text, err := os.ReadFile(filepath.Join(i.logs, "registry.log"))
		if err != nil {
			return err
		}
		for _, want := range []string{`"identity":"operator","via":"kubeapi"`, `"identity":"viewer","via":"kubeapi"`} {
			if !strings.Contains(string(text), want) {
				return fmt.Errorf("no %s in %s", want, text)
			}
		}
		return nil
	})
}
