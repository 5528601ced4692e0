package kubeapi

import (
	"net/http"
	"strings"
	"testing"
)

const web = `{"apiVersion":"v1","kind":"Service","metadata":{"name":"web","labels":{"app":"web"},"annotations":{"portolan.dev/scheduler":"lc"}},
	"spec":{"selector":{"app":"web"},"ports":[{"name":"http","port":80,"targetPort":8080}]}}`

func TestLifeOfAService(t *testing.T) {
	i := install(t, false)
	const services = "/api/v1/namespaces/default/services"
	created := i.send(http.MethodPost, services, web)
	if created.code != http.StatusCreated {
		t.Fatalf("%+v", created)
	}
	t.Log(created.body)
	for _, c := range []struct{ method, path, body, contentType string }{
		{"GET", services + "/web", "", ""}, {"GET", services, "", ""}, {"GET", "/api/v1/services?limit=1", "", ""},
		{"PATCH", services + "/web", `{"metadata":{"labels":{"a":"b"}}}`, "application/merge-patch+json"},
		{"PATCH", services + "/web", `[{"op":"add","path":"/metadata/labels/c","value":"d"}]`, "application/json-patch+json"},
		{"PATCH", services + "/web", `{"spec":{"ports":[{"port":81,"name":"more"}]}}`, "application/strategic-merge-patch+json"},
		{"PATCH", services + "/web/status", `{"status":{"conditions":[{"type":"x","status":"True","reason":"a","message":"b","lastTransitionTime":"2026-11-26T00:00:00Z"}]}}`, "application/merge-patch+json"},
		{"GET", services + "/web", "", "application/json;as=Table;v=v1;g=meta.k8s.io"},
		{"POST", services, web, "application/json"}, {"GET", services + "/nope", "", ""}, {"DELETE", services + "/web", "", ""},
		{"POST", services, strings.Replace(web, `"port":80`, `"port":80000`, 1), "application/json"},
		{"GET", "/api/v1/namespaces", "", "application/json;as=Table;v=v1;g=meta.k8s.io"}, {"GET", "/apis/networking.k8s.io/v1/networkpolicies", "", ""},
	} {
		headers := []string{"Content-Type", c.contentType}
		if c.method == "GET" {
			headers[0] = "Accept"
		}
		answer := i.send(c.method, c.path, c.body, headers...)
		t.Log(c.method, c.path, answer.code, answer.body, answer.header)
	}
}
