package kubeapi

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// clientOf returns a client of Kubernetes with the certificate of a role, which sends and accepts a media
// type.
func (i *installation) clientOf(who, mediaType string) *kubernetes.Clientset {
	i.Helper()
	files := i.certs.Issue(who, lifetime)
	client, err := kubernetes.NewForConfig(&rest.Config{
		Host: i.url, ContentConfig: rest.ContentConfig{ContentType: mediaType, AcceptContentTypes: mediaType}, QPS: 1000, Burst: 1000,
		TLSClientConfig: rest.TLSClientConfig{CertFile: files.Cert, KeyFile: files.Key, CAFile: files.CA},
	})
	if err != nil {
		i.Fatal(err)
	}
	return client
}

// methodsOf are the methods of HTTP by verb.
var methodsOf = map[string]string{
	"get": "GET", "list": "GET", "watch": "GET", "create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE", "deletecollection": "DELETE",
}

// TestReviewsSayWhatRequestsGet asks for each role, resource and verb, in two namespaces and in all, whether
// the request is allowed, and makes it. Requests have an empty object, so an allowed request ends with another
// error than 403.
func TestReviewsSayWhatRequestsGet(t *testing.T) {
	i := install(t, true)
	for _, name := range []string{"shop", "other"} {
		i.must("POST", "/api/v1/namespaces", `{"metadata":{"name":"`+name+`"}}`)
	}
	groups := map[string]string{
		"services": "", "pods": "", "endpoints": "", "nodes": "", "namespaces": "", "configmaps": "", "leases": "coordination.k8s.io", "endpointslices": "discovery.k8s.io",
		"events": "events.k8s.io", "ingresses": "networking.k8s.io",
	}
	asked := map[bool]int{}
	for _, who := range []string{"operator", "viewer", "operator/shop", "viewer/shop", "workload/n1/shop"} {
		client, reviews := i.as(who), i.clientOf(who, "application/json").AuthorizationV1().SelfSubjectAccessReviews()
		for plural, group := range groups {
			for verb, method := range methodsOf {
				for _, namespace := range []string{"shop", "other", ""} {
					clusterWide := plural == "nodes" || plural == "namespaces"
					if clusterWide != (namespace == "") && !(namespace == "" && (verb == "list" || verb == "watch")) || verb == "deletecollection" && clusterWide {
						continue
					}
					answer, err := reviews.Create(t.Context(), &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
						ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: verb, Group: group, Resource: plural, Name: "none"},
					}}, metav1.CreateOptions{})
					if err != nil {
						t.Fatal(err)
					}
					a := i.firstOf(client, method, pathOf(group, namespace, plural, verb), bodyOf(verb))
					if verb == "delete" && a.code == http.StatusNotFound || strings.Contains(a.body, "workload is bound") { // the object decides
						continue
					}
					if refused := a.code == http.StatusForbidden || a.code == http.StatusMethodNotAllowed; answer.Status.Allowed == refused {
						t.Errorf("%s %s %s in %q: allowed %v (%s), and the request gets %d %s", who, verb, plural, namespace, answer.Status.Allowed, answer.Status.Reason, a.code, a.body)
					}
					asked[answer.Status.Allowed]++
				}
			}
		}
	}
	if asked[true] < 100 || asked[false] < 100 {
		t.Errorf("%d are allowed and %d are not", asked[true], asked[false])
	}
}

// firstOf sends a request, and reads the answer if it is an error.
func (i *installation) firstOf(client *http.Client, method, path, body string) answer {
	i.Helper()
	ctx, cancel := context.WithCancel(i.Context())
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, i.url+path, strings.NewReader(body))
	if err != nil {
		i.Fatal(err)
	}
	request.Header.Set("Content-Type", contentType(method))
	response, err := client.Do(request)
	if err != nil {
		i.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode < http.StatusBadRequest {
		return answer{code: response.StatusCode}
	}
	text, err := io.ReadAll(response.Body)
	if err != nil {
		i.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, string(text)}
}

// pathOf returns the path of a request for an object that does not exist, or for all objects.
func pathOf(group, namespace, plural, verb string) string {
	path := "/api/v1"
	if group != "" {
		path = "/apis/" + group + "/v1"
	}
	if namespace != "" {
		path += "/namespaces/" + namespace
	}
	switch path += "/" + plural; verb {
	case "list", "create", "deletecollection":
		return path + "?dryRun=All"
	case "watch":
		return path + "?watch=1&resourceVersion=1"
	}
	return path + "/none?dryRun=All"
}

func bodyOf(verb string) string {
	switch verb {
	case "create", "update", "patch":
		return `{"metadata":{"name":"none"}}`
	}
	return ""
}

// TestRulesReview lists the rules of an operator of one namespace, in JSON and in protobuf.
func TestRulesReview(t *testing.T) {
	i := install(t, true)
	for _, mediaType := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		client := i.clientOf("operator/shop", mediaType)
		answer, err := client.AuthorizationV1().SelfSubjectRulesReviews().Create(t.Context(), &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: "shop"}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		verbs := map[string][]string{}
		for _, rule := range answer.Status.ResourceRules {
			for _, name := range rule.Resources {
				verbs[rule.APIGroups[0]+"/"+name] = rule.Verbs
			}
		}
		for name, want := range map[string][]string{
			"/services":                  {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"},
			"/services/status":           {"get", "patch", "update"},
			"coordination.k8s.io/leases": {"get", "list", "watch"},
			"/nodes":                     nil,
			"/configmaps":                {"get", "list", "watch"},
			"/namespaces/finalize":       nil,
			"authentication.k8s.io/selfsubjectreviews": {"create"},
		} {
			if !slices.Equal(verbs[name], want) {
				t.Errorf("%s: %s has %q, want %q", mediaType, name, verbs[name], want)
			}
		}
		if answer.Status.Incomplete || len(answer.Status.NonResourceRules) != 1 || !slices.Contains(answer.Status.NonResourceRules[0].NonResourceURLs, "/version") {
			t.Errorf("%+v", answer.Status)
		}
		who, err := client.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		if err != nil || who.Status.UserInfo.Username != "operator/shop" {
			t.Errorf("%+v, %v", who, err)
		}
	}
}

// TestBadReviews sends reviews that cannot be answered, and requests that reviews do not have.
func TestBadReviews(t *testing.T) {
	i := install(t, true)
	const access, rules = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
	who := "/apis/authentication.k8s.io/v1/selfsubjectreviews"
	for _, c := range []struct {
		method, path, body string
		code               int
	}{
		{"POST", access, `{}`, 422},
		{"POST", access, `{"spec":{"resourceAttributes":{},"nonResourceAttributes":{}}}`, 422},
		{"POST", access, `{"metadata":{"name":"x"},"spec":{"resourceAttributes":{"verb":"get","resource":"pods"}}}`, 422},
		{"POST", access, `{"spec":{"resourceAttributes":{"verb":"get","resource":"pods"}}}`, 201},
		{"POST", access, `{"spec":{"nonResourceAttributes":{"verb":"get","path":"/version"}}}`, 201},
		{"POST", access, `{"kind":"Pod","apiVersion":"v1"}`, 400},
		{"POST", access, `nonsense`, 400},
		{"POST", access, ``, 400},
		{"POST", access + "?fieldValidation=Strict", `{"spec":{"resourceAttributes":{"verb":"get"},"x":1}}`, 400},
		{"POST", rules, `{}`, 400},
		{"POST", rules, `{"spec":{"namespace":"none"}}`, 201},
		{"POST", who, `{}`, 201},
		{"GET", who, ``, 405},
		{"GET", access + "/x", ``, 405},
		{"DELETE", rules, ``, 405},
		{"POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", `{}`, 404},
		{"POST", "/apis/authentication.k8s.io/v1/tokenreviews", `{}`, 404},
	} {
		if a := i.send(c.method, c.path, c.body, "Content-Type", "application/json"); a.code != c.code {
			t.Errorf("%s %s %s: %d %s, want %d", c.method, c.path, c.body, a.code, a.body, c.code)
		}
	}
}

// TestWhoAmI asks for the identity of a client with a certificate and of a client with a token.
func TestWhoAmI(t *testing.T) {
	i := install(t, true)
	token := i.token("ci", "viewer/shop", lifetime)
	for want, a := range map[string]answer{
		`{"username":"viewer/shop","groups":["system:authenticated"],"extra":{"portolan.dev/token":["ci"]}}`: i.sendAs(i.as(""), "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", "{}", "Authorization", "Bearer "+token),
		`{"username":"operator","groups":["system:authenticated"]}`:                                          i.send("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", "{}"),
	} {
		var got struct {
			Status struct{ UserInfo json.RawMessage }
		}
		if err := json.Unmarshal([]byte(a.body), &got); err != nil || string(got.Status.UserInfo) != want {
			t.Error(fmt.Errorf("%s, %w; want %s", a.body, err, want))
		}
	}
}
