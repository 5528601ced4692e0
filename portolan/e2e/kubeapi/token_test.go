package kubeapi

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/portolan/internal/cli"
	"portolan.dev/services/kit/bearer"
	"portolan.dev/services/kit/kittest"
)

// token makes a token with the certificate of an operator and returns its text. It waits until kubeapi
// knows it.
func (i *installation) token(name, who string, life time.Duration) string {
	i.Helper()
	secret := bearer.NewSecret()
	sum := bearer.Sum(secret)
	_, err := registryv1.NewTokenServiceClient(i.dial("operator")).CreateToken(i.Context(), &registryv1.CreateTokenRequest{Token: &corev1.Token{
		Metadata: &corev1.ObjectMeta{Name: name}, Spec: &corev1.TokenSpec{Identity: who, Sha256: sum[:], Expires: timestamppb.New(time.Now().Add(life))},
	}})
	if err != nil {
		i.Fatal(err)
	}
	text := bearer.Text(name, secret)
	kittest.Eventually(i, "the token "+name, func() error {
		if a := i.sendAs(i.as(""), "GET", "/version", "", bearer.Header, "Bearer "+text); a.code == http.StatusUnauthorized {
			return fmt.Errorf("%d %s", a.code, a.body)
		}
		return nil
	})
	return text
}

// revoke deletes a token.
func (i *installation) revoke(name string) {
	i.Helper()
	if _, err := registryv1.NewTokenServiceClient(i.dial("operator")).DeleteToken(i.Context(), &registryv1.DeleteTokenRequest{Name: name}); err != nil {
		i.Fatal(err)
	}
}

// unauthorized waits until a request with a token gets 401 and a text.
func (i *installation) unauthorized(client *http.Client, text, has string) {
	i.Helper()
	kittest.Eventually(i, "refusal of the token", func() error {
		a := i.sendAs(client, "GET", services, "", bearer.Header, "Bearer "+text)
		if a.code != http.StatusUnauthorized || !strings.Contains(a.body, has) {
			return fmt.Errorf("%d %s, want %q", a.code, a.body, has)
		}
		return nil
	})
}

// TestTokens sends tokens in all ways that are right and wrong.
func TestTokens(t *testing.T) {
	i := install(t, true)
	i.must("POST", services, service("web", "x"))
	viewer, operator := i.token("ci", "viewer", time.Hour), i.token("my.ops", "operator", time.Hour)
	_, secret, _ := bearer.Parse(viewer)
	none, certified := i.as(""), i.as("viewer")
	for name, c := range map[string]struct {
		client *http.Client
		method string
		values []string // of the header
		code   int
		has    string
	}{
		"good":                      {none, "GET", []string{"Bearer " + viewer}, 200, `"name":"web"`},
		"lower case":                {none, "GET", []string{"bearer  " + viewer}, 200, `"name":"web"`},
		"role of the token":         {none, "DELETE", []string{"Bearer " + viewer}, 403, "role viewer"},
		"operator":                  {none, "DELETE", []string{"Bearer " + operator}, 200, ""},
		"certificate wins":          {certified, "DELETE", []string{"Bearer " + operator}, 403, "role viewer"},
		"certificate, bad token":    {certified, "GET", []string{"Bearer x"}, 200, ""},
		"none":                      {none, "GET", nil, 401, "neither a client certificate nor a token"},
		"wrong secret":              {none, "GET", []string{"Bearer " + bearer.Text("ci", bearer.NewSecret())}, 401, "the token is not known"},
		"secret of another":         {none, "GET", []string{"Bearer " + bearer.Text("my.ops", secret)}, 401, "the token is not known"},
		"unknown name":              {none, "GET", []string{"Bearer " + bearer.Text("none", secret)}, 401, "the token is not known"},
		"the secret alone":          {none, "GET", []string{"Bearer " + secret}, 401, "has not the form"},
		"empty":                     {none, "GET", []string{"Bearer "}, 401, "has not the form"},
		"longer":                    {none, "GET", []string{"Bearer " + viewer + "x"}, 401, "has not the form"},
		"much longer":               {none, "GET", []string{"Bearer " + bearer.Text(strings.Repeat("a", 9000), secret)}, 401, "has not the form"},
		"the hash as secret":        {none, "GET", []string{"Bearer " + bearer.Text("ci", fmt.Sprintf("%x", sha256.Sum256([]byte(secret)))[:43])}, 401, "the token is not known"},
		"another scheme":            {none, "GET", []string{"Basic " + viewer}, 401, "has not the form"},
		"without a scheme":          {none, "GET", []string{viewer}, 401, "has not the form"},
		"two headers":               {none, "GET", []string{"Bearer " + viewer, "Bearer " + operator}, 401, "has not the form"},
		"token of a serviceaccount": {none, "GET", []string{"Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJvcGVyYXRvciJ9."}, 401, "has not the form"},
	} {
		path := services
		if c.method == "DELETE" {
			path += "/web?dryRun=All"
		}
		request, err := http.NewRequestWithContext(t.Context(), c.method, i.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header[bearer.Header] = c.values
		a := i.do(c.client, request)
		if a.code != c.code || !strings.Contains(a.body, c.has) {
			t.Errorf("%s: %d %s, want %d with %q", name, a.code, a.body, c.code, c.has)
		}
		if a.code == 401 && (a.header.Get("WWW-Authenticate") == "" || a.object(t).GetKind() != "Status" || strings.Contains(a.body, secret)) {
			t.Errorf("%s: %v %s", name, a.header, a.body)
		}
	}
}

// TestClientGoWithToken has client-go send tokens, in JSON and in protobuf.
func TestClientGoWithToken(t *testing.T) {
	i := install(t, true)
	i.must("POST", services, service("web", "x"))
	for who, mediaType := range map[string]string{"viewer": runtime.ContentTypeJSON, "operator": runtime.ContentTypeProtobuf} {
		client, err := kubernetes.NewForConfig(&rest.Config{
			Host: i.url, BearerToken: i.token(who, who, time.Hour), TLSClientConfig: rest.TLSClientConfig{CAFile: i.certs.CA()},
			ContentConfig: rest.ContentConfig{ContentType: mediaType, AcceptContentTypes: mediaType},
		})
		if err != nil {
			t.Fatal(err)
		}
		list, err := client.CoreV1().Services("").List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != 1 {
			t.Errorf("%s: %v, %v", who, list, err)
		}
		err = client.CoreV1().Services("default").Delete(t.Context(), "web", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
		if apierrors.IsForbidden(err) != (who == "viewer") || who == "operator" && err != nil {
			t.Errorf("%s: %v", who, err)
		}
	}
}

// TestNobodyImpersonates sends the headers by which a client of Kubernetes acts as another one.
func TestNobodyImpersonates(t *testing.T) {
	i := install(t, true)
	for _, header := range []string{"Impersonate-User", "Impersonate-Group", "Impersonate-Uid", "Impersonate-Extra-Scopes"} {
		if a := i.sendAs(i.as("viewer"), "GET", services, "", header, "operator"); a.code != http.StatusForbidden {
			t.Errorf("%s: %+v", header, a)
		}
	}
}

// TestTokensEnd revokes tokens in each way, and lets one expire, while they are used and a watch is open.
func TestTokensEnd(t *testing.T) {
	i := install(t, true)
	client := i.as("")
	revokeIdentity := func(who string) func() {
		return func() {
			revocation := &corev1.Revocation{Metadata: &corev1.ObjectMeta{GenerateName: "r-"}, Spec: &corev1.RevocationSpec{Identity: who}}
			if _, err := registryv1.NewRevocationServiceClient(i.dial("operator")).CreateRevocation(t.Context(), &registryv1.CreateRevocationRequest{Revocation: revocation}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		name, who string
		life      time.Duration
		end       func()
		has       string
	}{
		{"deleted", "viewer", time.Hour, func() { i.revoke("deleted") }, "the token is not known"},
		{"old", "viewer", 3 * time.Second, func() {}, "the token old expired at "},
		{"identity", "viewer/default", time.Hour, revokeIdentity("viewer/default"), "with all that was issued to or by viewer/default until"},
		{"creator", "viewer", time.Hour, revokeIdentity("operator"), "with all that was issued to or by operator until"}, // the last, because it ends ours too
	} {
		text := i.token(c.name, c.who, c.life)
		events := i.watch(client, services, bearer.Header, "Bearer "+text)
		c.end()
		event := kittest.Receive(t, "the last event", events)
		var status struct{ Code int }
		if err := json.Unmarshal(event.Object, &status); err != nil || event.Type != "ERROR" || status.Code != http.StatusUnauthorized {
			t.Errorf("%s: %s %s, %v", c.name, event.Type, event.Object, err)
		}
		i.unauthorized(client, text, c.has)
	}
}

// TestATokenOfTheSameName deletes a token and makes another one of the same name: the first stays void.
func TestATokenOfTheSameName(t *testing.T) {
	i := install(t, true)
	client, first := i.as(""), i.token("ci", "operator", time.Hour)
	i.revoke("ci")
	second := i.token("ci", "viewer", time.Hour)
	i.unauthorized(client, first, "the token is not known")
	if a := i.sendAs(client, "POST", services, service("web", "x"), bearer.Header, "Bearer "+second); a.code != http.StatusForbidden {
		t.Errorf("%+v", a)
	}
}

// TestTokensWithoutTLS sends a token to a server without TLS, which allows every request.
func TestTokensWithoutTLS(t *testing.T) {
	i := install(t, false)
	if a := i.get(services, bearer.Header, "Bearer x"); a.code != http.StatusOK {
		t.Errorf("%+v", a)
	}
}

// portolan runs the command line as a role, against the registry.
func (i *installation) portolan(who string, args ...string) (out string, err error) {
	i.Helper()
	files := i.certs.Issue(who, lifetime)
	args = append(args, "--server", i.registry, "--tls-cert", files.Cert, "--tls-key", files.Key, "--tls-ca", files.CA)
	var stdout, stderr bytes.Buffer
	if code := cli.Main(i.Context(), args, strings.NewReader(""), &stdout, &stderr); code != 0 {
		return "", fmt.Errorf("exit code %d: %s", code, &stderr)
	}
	return stdout.String(), nil
}

// kubectlWith returns kubectl with a kubeconfig that the command line writes.
func kubectlWith(i *installation, args ...string) *kubectl {
	i.Helper()
	k := kubectlOf(i, "viewer", distributed(i))
	k.config = filepath.Join(k.home, "written")
	if _, err := i.portolan("operator", append([]string{"kubeconfig", "--kubeapi", i.url, "-f", k.config}, args...)...); err != nil {
		i.Fatal(err)
	}
	if info, err := os.Stat(k.config); err != nil || info.Mode().Perm() != 0o600 {
		i.Fatalf("%v, %v", info, err)
	}
	return k
}

// TestKubectlWithToken uses kubectl with the kubeconfigs that the command line writes, and revokes a token.
func TestKubectlWithToken(t *testing.T) {
	i := install(t, true)
	for _, name := range []string{"shop", "other"} {
		i.must("POST", "/api/v1/namespaces", `{"metadata":{"name":"`+name+`"}}`)
	}
	shop := kubectlWith(i, "--role", "operator", "--namespace", "shop", "--name", "shop", "--ttl", "1h")
	own := kubectlWith(i, "--certificate")
	kittest.Eventually(t, "the token", func() error {
		_, err := shop.try("", "get", "--raw", "/version")
		return err
	})
	if out := shop.run(web, "apply", "--validate=false", "-f", "-"); !strings.Contains(out, "created") {
		t.Error(out)
	}
	if out := own.run("", "get", "services", "-A"); !strings.Contains(out, "shop ") {
		t.Errorf("the service is not in the namespace of the token: %s", out)
	}
	for _, c := range []struct {
		kubectl *kubectl
		args    string
		has     string
	}{
		{shop, "auth can-i create services", "yes"},
		{shop, "auth can-i delete pods -n shop", "yes"},
		{shop, "auth can-i patch services --subresource=status", "yes"},
		{shop, "auth can-i create services -n other", "no"},
		{shop, "auth can-i create leases", "no"},
		{shop, "auth can-i get nodes", "no"},
		{shop, "auth can-i create configmaps", "no"},
		{shop, "auth can-i list configmaps", "yes"},
		{shop, "auth can-i get /version", "yes"},
		{shop, "auth can-i get /secret", "no"},
		{shop, "auth can-i * *", "no"},
		{own, "auth can-i * *", "yes"},
		{own, "auth can-i delete nodes", "yes"},
		{shop, "auth can-i --list", "services/status"},
	} {
		// kubectl ends with an error if the answer is no.
		if out, _ := c.kubectl.try("", strings.Fields(c.args)...); !strings.Contains(out, c.has) { //nolint:errcheck // it is in the output
			t.Errorf("kubectl %s: no %q in %s", c.args, c.has, out)
		}
	}
	recent := &kubectl{installation: i, program: newest(t), config: shop.config, home: shop.home}
	if out := recent.run("", "auth", "whoami"); !strings.Contains(out, "operator/shop") || !strings.Contains(out, "[shop]") {
		t.Errorf("whoami: %s", out)
	}
	if out, err := i.portolan("operator", "get", "tokens"); err != nil || !strings.Contains(out, "operator/shop") {
		t.Errorf("%v %s", err, out)
	}
	if _, err := i.portolan("operator", "delete", "token", "shop"); err != nil {
		t.Fatal(err)
	}
	kittest.Eventually(t, "kubectl is refused", func() error {
		if out, err := shop.try("", "get", "services"); err == nil || !strings.Contains(out, "Unauthorized") && !strings.Contains(out, "logged in") {
			return fmt.Errorf("%v %s", err, out)
		}
		return nil
	})
}
