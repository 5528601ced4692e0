package kubeapi

import (
	"net/http"
	"strings"
	"testing"

	kubev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

const web = `{"apiVersion":"v1","kind":"Service","metadata":{"name":"web","labels":{"app":"web"},"annotations":{"portolan.dev/scheduler":"lc"}},
	"spec":{"selector":{"app":"web"},"ports":[{"name":"http","port":80,"targetPort":8080}]}}`

// step is a request with the expected code and text of its answer.
type step struct {
	method, path, body, contentType string
	code                            int
	has                             string // in the body or in a warning
}

// steps sends requests one after the other.
func (i *installation) steps(all ...step) {
	i.Helper()
	for _, s := range all {
		headers := []string{"Content-Type", s.contentType}
		switch {
		case s.contentType == "":
			headers = nil
		case s.method == http.MethodGet:
			headers[0] = "Accept"
		}
		a := i.send(s.method, s.path, s.body, headers...)
		if text := a.body + strings.Join(a.header.Values("Warning"), "\n"); a.code != s.code || !strings.Contains(text, s.has) {
			i.Errorf("%s %s %s: %d %s\nwant %d with %s", s.method, s.path, s.body, a.code, text, s.code, s.has)
		}
		if a.code >= 400 && !strings.Contains(a.body, `"kind":"Status"`) {
			i.Errorf("%s %s: no Status: %s", s.method, s.path, a.body)
		}
	}
}

func TestRequests(t *testing.T) {
	i := install(t, false)
	const (
		strategic  = "application/strategic-merge-patch+json"
		operations = "application/json-patch+json"
		table      = "application/json;as=Table;v=v1;g=meta.k8s.io"
		one        = services + "/web"
	)
	i.steps(
		step{"GET", "/version", "", "", 200, `"major":"1"`},
		step{"GET", "/livez", "", "", 200, "ok"},
		step{"GET", "/api", "", "", 200, `"versions":["v1"]`},
		step{"GET", "/apis", "", "", 200, `"discovery.k8s.io"`},
		step{"GET", "/apis", "", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList;profile=nopeer,application/json", 200, `"kind":"APIGroupDiscoveryList"`},
		step{"GET", "/api/v1", "", "", 200, `"name":"services/status"`},
		step{"GET", "/apis/discovery.k8s.io/v1", "", "", 200, `"endpointslices"`},
		step{"GET", "/apis/nope/v1", "", "", 404, "could not find"},
		step{"GET", "/api/v1/nope", "", "", 404, "could not find"},
		step{"GET", "/nope", "", "", 404, "could not find"},
		step{"GET", "/api/v1/a/b/c/d/e/f/g/h/i", "", "", 404, "could not find"},
		step{"POST", "/apis", "{}", "", 405, "does not allow this method"},

		step{"POST", services + "?dryRun=All", web, "", 201, `"clusterIP"`},
		step{"GET", one, "", "", 404, `services \"web\" not found`},
		step{"POST", services, web, "", 201, `"portolan.dev/scheduler":"lc"`},
		step{"POST", services, web, "", 409, "already exists"},
		step{"POST", services, `{"metadata":{"generateName":"gen-"},"spec":{"ports":[{"port":80}]}}`, "", 201, `"name":"gen-`},
		step{"POST", services, `{"metadata":{},"spec":{"ports":[{"port":80}]}}`, "", 422, "name or generateName is required"},
		step{"POST", services, strings.Replace(web, `"port":80`, `"port":80000`, 1), "", 422, `"field":"spec.ports[0].port"`},
		step{"POST", services, strings.Replace(web, `"ports"`, `"type":"Cluster","ports"`, 1), "", 422, "Unsupported value"},
		step{"POST", services, `{"kind":"Pod","apiVersion":"v1"}`, "", 400, "cannot be handled as a Service"},
		step{"POST", services, `{"metadata":`, "", 400, "must be of type Service"},
		step{"POST", services, "x", "text/html", 415, "unknown format"},
		step{"POST", services, `{"metadata":{"name":"x","namespace":"other"}}`, "", 400, "does not match the namespace"},
		step{"POST", "/api/v1/namespaces/nope/services", web, "", 404, `namespaces \"nope\" not found`},
		step{"POST", "/api/v1/services", web, "", 405, "does not allow this method"},
		step{"POST", services + "?fieldValidation=Strict", strings.Replace(web, `"spec"`, `"specs":1,"spec"`, 1), "", 400, "unknown field"},
		step{"POST", services + "?dryRun=All", strings.Replace(strings.Replace(web, `"spec"`, `"specs":1,"spec"`, 1), `"web",`, `"other",`, 1), "", 201, "unknown field"},
		step{"POST", services + "?dryRun=Some", web, "", 422, "dryRun"},
		step{"POST", "/api/v1/namespaces/default/pods?dryRun=All", `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c"}],"volumes":[{"name":"v"}]}}`, "", 201, "spec.volumes is dropped"},
		step{"POST", "/api/v1/namespaces/default/configmaps", `{"metadata":{"name":"x"}}`, "", 405, "Portolan has no configmaps"},

		step{"GET", one, "", "application/yaml", 200, "clusterIP: 10."},
		step{"GET", one, "", table, 200, `"cells":["web","ClusterIP"`},
		step{"GET", one, "", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", 200, `"kind":"PartialObjectMetadata"`},
		step{"GET", one, "", "text/html", 406, "Available representations"},
		step{"GET", services + "?labelSelector=app%3Dweb", "", table, 200, `"cells":["web"`},
		step{"GET", services + "?limit=1", "", "", 200, `"continue":"`},
		step{"GET", services + "?fieldSelector=metadata.name%3Dnope", "", "", 200, `"items":[]`},
		step{"GET", "/apis/networking.k8s.io/v1/servicecidrs", "", "", 200, `"kind":"ServiceCIDRList"`},

		step{"PATCH", one, `{"metadata":{"labels":{"a":"b"}}}`, merge, 200, `"a":"b"`},
		step{"PATCH", one, `[{"op":"test","path":"/metadata/labels/a","value":"b"},{"op":"remove","path":"/metadata/labels/a"}]`, operations, 200, `"labels":{"app":"web"}`},
		step{"PATCH", one, `[{"op":"test","path":"/metadata/labels/app","value":"x"}]`, operations, 422, ""},
		step{"PATCH", one, `{"spec":{"ports":[{"port":81,"name":"more"}]}}`, strategic, 200, `"port":80`},
		step{"PATCH", one, `{"metadata":{"resourceVersion":"1"}}`, merge, 409, "has been modified"},
		step{"PATCH", one, `{"metadata":{"uid":"1"}}`, merge, 422, "field is immutable"},
		step{"PATCH", one, `{"metadata":{"name":"other"}}`, merge, 400, "does not match the name"},
		step{"PATCH", one, `{`, merge, 400, "patch"},
		step{"PATCH", one, `{}`, operations, 400, "patch"},
		step{"PATCH", one, `{}`, "application/apply-patch+cbor", 415, "application/apply-patch+yaml"},
		step{"PATCH", one + "?force=true", `{}`, merge, 422, "may not be specified for non-apply patch"},
		step{"PATCH", one, "[" + strings.Repeat(`{"op":"copy","from":"/spec","path":"/metadata/annotations/x"},`, 10000) + `{"op":"remove","path":"/a"}]`, operations, 413, "10000"},
		step{"PATCH", services + "/nope", `{}`, merge, 404, "not found"},
		step{"PATCH", one + "/status", `{"status":{"conditions":[{"type":"x","status":"True","reason":"a","message":"b","lastTransitionTime":"2026-11-26T00:00:00Z"}]}}`, merge, 200, `"type":"x"`},
		step{"GET", one + "/status", "", "", 200, `"type":"x"`},
		step{"GET", one + "/scale", "", "", 404, "could not find"},

		step{"PUT", one, strings.Replace(web, `"lc"`, `"rr"`, 1), "", 200, `"portolan.dev/scheduler":"rr"`},
		step{"PUT", one, strings.Replace(web, `"name":"web"`, `"name":"web","resourceVersion":"1"`, 1), "", 409, "has been modified"},
		step{"PUT", one, strings.Replace(web, `"name":"web"`, `"name":"other"`, 1), "", 400, "does not match the name"},
		step{"PUT", services + "/new", strings.Replace(web, `"name":"web"`, `"name":"new"`, 1), "", 201, `"name":"new"`},
		step{"PUT", one, strings.Repeat(" ", 4<<20), "", 413, "limit is 3145728"},

		step{"DELETE", one, `{"preconditions":{"uid":"1"}}`, "", 409, ""},
		step{"DELETE", one + "?propagationPolicy=Orphan", "", "", 422, "propagationPolicy"},
		step{"DELETE", one, `{"propagationPolicy":"Foreground","kind":"DeleteOptions","apiVersion":"v1"}`, "", 200, `"name":"web"`},
		step{"DELETE", one, "", "", 404, "not found"},
		step{"DELETE", services + "?labelSelector=app%3Dweb", "", "", 200, `"name":"new"`},
		step{"GET", services, "", table, 200, `"cells":["gen-`},

		step{"POST", "/api/v1/namespaces", `{"metadata":{"name":"held"},"spec":{"finalizers":["example.com/held"]}}`, "", 201, "example.com/held"},
		step{"DELETE", "/api/v1/namespaces/held", "", "", 200, `"deletionTimestamp"`},
		step{"PUT", "/api/v1/namespaces/held/finalize", `{"metadata":{"name":"held"},"spec":{}}`, "", 200, `"name":"held"`},
	)
}

// TestProtobuf sends and reads an object as CoreDNS does.
func TestProtobuf(t *testing.T) {
	i := install(t, false)
	const protobuf = "application/vnd.kubernetes.protobuf"
	service := &kubev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: kubev1.ServiceSpec{Ports: []kubev1.ServicePort{{Port: 80}}}}
	raw, err := service.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	envelope := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "Service"}, Raw: raw}
	body, err := envelope.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	i.steps(step{"POST", services, "k8s\x00" + string(body), protobuf, 201, `"port":80`})
	a := i.get(services, "Accept", protobuf)
	var list kubev1.ServiceList
	if err := envelope.Unmarshal([]byte(strings.TrimPrefix(a.body, "k8s\x00"))); err != nil {
		t.Fatal(err)
	}
	if err := list.Unmarshal(envelope.Raw); err != nil || envelope.Kind != "ServiceList" || len(list.Items) != 1 || list.Items[0].Spec.ClusterIP == "" {
		t.Errorf("%v %v %v", envelope.TypeMeta, list, err)
	}
}
