package kubeapi

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/bearer"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

// TestOnlyOperatorsMakeTokens tries to make, read and delete tokens by every method, with the certificate of
// every role but an operator's of all namespaces.
func TestOnlyOperatorsMakeTokens(t *testing.T) {
	i := install(t, true)
	i.token("ci", "operator", time.Hour)
	wanted := func() *corev1.Token {
		sum := bearer.Sum(bearer.NewSecret())
		return &corev1.Token{Metadata: &corev1.ObjectMeta{Name: "mine"}, Spec: &corev1.TokenSpec{Identity: "viewer/shop", Sha256: sum[:]}}
	}
	attempts := map[string]func(ctx context.Context, conn grpc.ClientConnInterface) error{
		"CreateToken": func(ctx context.Context, conn grpc.ClientConnInterface) error {
			_, err := registryv1.NewTokenServiceClient(conn).CreateToken(ctx, &registryv1.CreateTokenRequest{Token: wanted()})
			return err
		},
		"Apply": func(ctx context.Context, conn grpc.ClientConnInterface) error {
			_, err := registryv1.NewApplyServiceClient(conn).Apply(ctx, &registryv1.ApplyRequest{Object: object.Wrap(wanted())})
			return err
		},
		"Write": func(ctx context.Context, conn grpc.ClientConnInterface) error {
			answer, err := registryv1.NewBulkServiceClient(conn).Write(ctx, &registryv1.WriteRequest{Operations: []*registryv1.WriteOperation{
				{Write: &registryv1.WriteOperation_Create{Create: object.Wrap(wanted())}},
			}})
			if err != nil || len(answer.GetResults()) == 0 || answer.GetResults()[0].GetError() == nil {
				return err
			}
			return apierr.PermissionDenied(answer.GetResults()[0].GetError().GetMessage())
		},
		"UpdateToken": func(ctx context.Context, conn grpc.ClientConnInterface) error {
			o := wanted()
			o.Metadata.Name = "ci"
			_, err := registryv1.NewTokenServiceClient(conn).UpdateToken(ctx, &registryv1.UpdateTokenRequest{Token: o})
			return err
		},
		"DeleteToken": func(ctx context.Context, conn grpc.ClientConnInterface) error {
			_, err := registryv1.NewTokenServiceClient(conn).DeleteToken(ctx, &registryv1.DeleteTokenRequest{Name: "ci"})
			return err
		},
		"GetToken": func(ctx context.Context, conn grpc.ClientConnInterface) error {
			_, err := registryv1.NewTokenServiceClient(conn).GetToken(ctx, &registryv1.GetTokenRequest{Name: "ci"})
			return err
		},
		"ListTokens": func(ctx context.Context, conn grpc.ClientConnInterface) error {
			_, err := registryv1.NewTokenServiceClient(conn).ListTokens(ctx, &registryv1.ListTokensRequest{})
			return err
		},
	}
	for _, who := range []string{"operator/shop", "viewer", "viewer/shop", "workload/n1/shop", "nodeagent/n1", "edge/n1", "allocator", "endpointctl", "lbctl", "dnssvc", "kubeapi", "kubeapi for operator"} {
		ctx := t.Context()
		role, represented, _ := strings.Cut(who, " for ")
		if represented != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, identity.BehalfHeader, represented)
		}
		conn := i.dial(role)
		for name, attempt := range attempts {
			if err := attempt(ctx, conn); apierr.Code(err) != codes.PermissionDenied {
				t.Errorf("%s as %s: %v", name, who, err)
			}
		}
		if represented != "" || strings.Contains(role, "/shop") { // these read no log
			continue
		}
		if got, want := i.tokensIn(conn), role == "kubeapi"; (len(got) > 0) != want {
			t.Errorf("%s: the snapshot has the tokens %q", who, got)
		}
	}
	if _, err := i.portolan("operator/shop", "token", "create", "mine", "--role", "viewer"); err == nil {
		t.Error("an operator of one namespace made a token")
	}
	for path, code := range map[string]int{"/apis/portolan.dev/v1/tokens": 404, "/api/v1/tokens": 404} {
		if a := i.get(path); a.code != code {
			t.Errorf("%s: %+v", path, a)
		}
	}
}

// tokensIn returns the names of the tokens in a snapshot that a client may read.
func (i *installation) tokensIn(conn grpc.ClientConnInterface) (names []string) {
	i.Helper()
	stream, err := registryv1.NewChangeServiceClient(conn).Snapshot(i.Context(), &registryv1.SnapshotRequest{})
	for err == nil {
		var part *registryv1.SnapshotResponse
		if part, err = stream.Recv(); err == nil {
			for _, o := range part.GetObjects() {
				if token := o.GetToken(); token != nil {
					names = append(names, token.GetMetadata().GetName())
				}
			}
		}
	}
	if !errors.Is(err, io.EOF) {
		i.Fatal(err)
	}
	slices.Sort(names)
	return names
}

// TestAuditNamesTheToken checks that the audit logs of the registry and of kubeapi have the identity and the
// name of the token, that kubeapi's log has the refused callers, and that no log has a secret.
func TestAuditNamesTheToken(t *testing.T) {
	i := install(t, true)
	i.must("POST", services, service("web", "x"))
	viewer, operator := i.token("ci", "viewer", time.Hour), i.token("ops", "operator", time.Hour)
	wrong := bearer.Text("ci", bearer.NewSecret())
	client := i.as("")
	for text, code := range map[string]int{viewer: 403, operator: 200, wrong: 401} {
		if a := i.sendAs(client, "DELETE", services+"/web", "", bearer.Header, "Bearer "+text); a.code != code {
			t.Fatalf("%+v", a)
		}
	}
	for log, lines := range map[string][]string{
		"registry.log": {
			`"identity":"operator","via":"kubeapi","token":"ops",`, `"identity":"viewer","via":"kubeapi","token":"ci",`,
			`"method":"/portolan.registry.v1.TokenService/CreateToken","kind":"Token","name":"ci"`,
		},
		"kubeapi.log": {
			`"identity":"operator","token":"ops","peer":"127.0.0.1:`, `"identity":"viewer","token":"ci","peer":"127.0.0.1:`,
			`"method":"DELETE /api/v1/namespaces/default/services/web","kind":"Service","namespace":"default","name":"web","code":"OK"`,
			`"method":"DELETE /api/v1/namespaces/default/services/web","code":"UNAUTHENTICATED","reason":"the token is not known`,
			`"identity":"operator","serial":"`, // of the request with a certificate
		},
	} {
		kittest.Eventually(t, "the lines of "+log, func() error {
			text, err := os.ReadFile(filepath.Join(i.logs, log))
			if err != nil {
				return err
			}
			for _, want := range lines {
				if !strings.Contains(string(text), want) {
					return fmt.Errorf("no %s in %s", want, text)
				}
			}
			return nil
		})
		text, err := os.ReadFile(filepath.Join(i.logs, log))
		if err != nil {
			t.Fatal(err)
		}
		for _, token := range []string{viewer, operator, wrong} {
			if _, secret, _ := bearer.Parse(token); strings.Contains(string(text), secret) {
				t.Errorf("%s has a secret", log)
			}
		}
	}
}

// TestABadCertificateIsNotReplacedByAToken sends a good token with certificates of another authority, that have
// expired, that are revoked, and of a role that may not use this API.
func TestABadCertificateIsNotReplacedByAToken(t *testing.T) {
	i := install(t, true)
	text := i.token("ci", "operator", time.Hour)
	revocation := &corev1.Revocation{Metadata: &corev1.ObjectMeta{Name: "viewer"}, Spec: &corev1.RevocationSpec{Identity: "viewer"}}
	if _, err := registryv1.NewRevocationServiceClient(i.dial("operator")).CreateRevocation(t.Context(), &registryv1.CreateRevocationRequest{Revocation: revocation}); err != nil {
		t.Fatal(err)
	}
	for name, files := range map[string]identity.Files{
		"foreign": kittest.NewCertificates(t).Issue("operator", time.Hour), "expired": i.certs.Issue("operator/shop", time.Second),
		"revoked": i.certs.Issue("viewer", time.Hour), "another role": i.certs.Issue("registry", time.Hour),
	} {
		pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
		if err != nil {
			t.Fatal(err)
		}
		kittest.Eventually(t, name, func() error { // the revocation takes a moment, and the certificate a second to expire
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{
				RootCAs: i.authority(), MinVersion: tls.VersionTLS13, GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil },
			}}}
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, i.url+services, nil)
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set(bearer.Header, "Bearer "+text)
			response, err := client.Do(request)
			if err != nil {
				return nil //nolint:nilerr // the handshake fails
			}
			defer func() { _ = response.Body.Close() }()
			if response.StatusCode != http.StatusUnauthorized && response.StatusCode != http.StatusForbidden {
				return fmt.Errorf("%d", response.StatusCode)
			}
			return nil
		})
	}
}

// TestStrangersKeepNoConnection sends requests without a certificate and a good token: each is refused
// before its body is read, and its connection ends.
func TestStrangersKeepNoConnection(t *testing.T) {
	i := install(t, true)
	for _, path := range []string{"/version", "/healthz", "/api", services, services + "?watch=1"} {
		a := i.sendAs(i.as(""), "GET", path, "", bearer.Header, "Bearer "+bearer.Text("x", bearer.NewSecret()))
		if a.code != http.StatusUnauthorized {
			t.Errorf("%s: %+v", path, a)
		}
	}
	transport, _ := i.as("").Transport.(*http.Transport)
	plain := transport.Clone()
	plain.ForceAttemptHTTP2, plain.TLSClientConfig.NextProtos = false, []string{"http/1.1"}
	t.Cleanup(plain.CloseIdleConnections)
	body := endless{}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, i.url+services, body)
	if err != nil {
		t.Fatal(err)
	}
	response, err := plain.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusUnauthorized || !response.Close {
		t.Errorf("%d, close %v", response.StatusCode, response.Close)
	}
}
