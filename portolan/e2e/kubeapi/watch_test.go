package kubeapi

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	kubev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"portolan.dev/kubeapi"
	"portolan.dev/services/kit/kittest"
)

const (
	services = "/api/v1/namespaces/default/services"
	merge    = "application/merge-patch+json"
)

// service returns a service with a label.
func service(name, label string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q,"labels":{"app":%q}},"spec":{"ports":[{"port":80}]}}`, name, label)
}

// must sends a request and returns the resource version of the answer's object.
func (i *installation) must(method, path, body string) string {
	i.Helper()
	a := i.send(method, path, body, "Content-Type", contentType(method))
	if a.code >= 300 {
		i.Fatalf("%s %s: %d %s", method, path, a.code, a.body)
	}
	return a.object(i).GetResourceVersion()
}

// expect checks the types and names of the next events, such as "ADDED a".
func expect(t *testing.T, events <-chan event, want ...string) (last event) {
	t.Helper()
	for _, one := range want {
		last = kittest.Receive(t, "the event "+one, events)
		if got := strings.TrimSpace(last.Type + " " + last.about().Name); got != one {
			t.Fatalf("got %s (%s), want %s", got, last.Object, one)
		}
	}
	return last
}

func TestWatch(t *testing.T) {
	i := install(t, false)
	i.must("POST", services, service("a", "x"))
	list := i.must("GET", services, "")
	all := i.watch(i.http, services)
	later := i.watch(i.http, services+"?resourceVersion="+list)
	selected := i.watch(i.http, services+"?labelSelector=app%3Dx&resourceVersion="+list)
	byField := i.watch(i.http, services+"?fieldSelector=metadata.name%3Da&resourceVersion="+list)
	initial := i.watch(i.http, "/api/v1/services?sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true")
	expect(t, all, "ADDED a")
	expect(t, initial, "ADDED a")
	bookmark := expect(t, initial, "BOOKMARK")
	if about := bookmark.about(); about.Annotations["k8s.io/initial-events-end"] != "true" || about.ResourceVersion == "" {
		t.Errorf("the bookmark is %s", bookmark.Object)
	}

	i.must("POST", services, service("b", "y"))
	i.must("PATCH", services+"/b", `{"metadata":{"labels":{"app":"x"}}}`)
	i.must("PATCH", services+"/b", `{"metadata":{"labels":{"z":"1"}}}`)
	i.must("PATCH", services+"/b", `{"metadata":{"labels":{"app":"y"}}}`)
	i.must("DELETE", services+"/a", "")
	for _, events := range []<-chan event{all, later, initial} {
		before := expect(t, events, "ADDED b", "MODIFIED b", "MODIFIED b", "MODIFIED b").about().ResourceVersion
		if gone := expect(t, events, "DELETED a").about().ResourceVersion; gone <= before {
			t.Errorf("the deletion has the version %s, and the change before it %s", gone, before)
		}
	}
	expect(t, selected, "ADDED b", "MODIFIED b", "DELETED b", "DELETED a")
	expect(t, byField, "DELETED a")
}

func TestWatchEndsInTime(t *testing.T) {
	i := install(t, false)
	for _, path := range []string{services, "/apis/networking.k8s.io/v1/networkpolicies"} {
		events := i.watch(i.http, path+"?timeoutSeconds=1&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan")
		expect(t, events, "BOOKMARK", "BOOKMARK")
		if event, open := <-events; open {
			t.Errorf("%s: another event: %s %s", path, event.Type, event.Object)
		}
	}
}

func TestWatchOfTheWrongTime(t *testing.T) {
	i := install(t, false, func(c *kubeapi.Config) { c.History = 3 })
	first := i.must("POST", services, service("a", "x"))
	slow := i.watch(i.http, services+"?resourceVersion="+first)
	for n := range 10 {
		i.must("PATCH", services+"/a", fmt.Sprintf(`{"metadata":{"labels":{"n":"%d"}}}`, n))
	}
	expect(t, slow, "MODIFIED a") // a client that reads is not behind
	for _, c := range []struct {
		path   string
		code   int
		reason metav1.StatusReason
	}{
		{"?watch=1&resourceVersion=" + first, 410, metav1.StatusReasonExpired},
		{"?watch=1&resourceVersion=100000", 504, metav1.StatusReasonTimeout},
		{"?resourceVersion=100000", 504, metav1.StatusReasonTimeout},
		{"?resourceVersion=" + first, 200, ""},
		{"?resourceVersion=0", 200, ""},
		{"?resourceVersion=" + first + "&resourceVersionMatch=Exact", 410, metav1.StatusReasonExpired},
		{"?resourceVersion=x", 400, metav1.StatusReasonBadRequest},
		{"?watch=1&sendInitialEvents=true", 422, metav1.StatusReasonInvalid},
		{"?resourceVersionMatch=Exact", 422, metav1.StatusReasonInvalid},
		{"?continue=nonsense", 400, metav1.StatusReasonBadRequest},
		{"?labelSelector=%3D", 400, metav1.StatusReasonBadRequest},
		{"?fieldSelector=spec.nope%3D1", 400, metav1.StatusReasonBadRequest},
		{"?watch=1&fieldSelector=spec.nope%3D1", 400, metav1.StatusReasonBadRequest},
	} {
		a := i.get(services + c.path)
		if status := a.object(t); a.code != c.code || c.code != 200 && fmt.Sprint(status.Object["reason"]) != string(c.reason) {
			t.Errorf("%s: %d %s, want %d %s", c.path, a.code, a.body, c.code, c.reason)
		}
	}
}

// TestProtobufWatch reads the frames of a watch in protobuf, as client-go does.
func TestProtobufWatch(t *testing.T) {
	i := install(t, false)
	version := i.must("POST", services, service("a", "x"))
	i.must("DELETE", services+"/a", "")
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, i.url+services+"?watch=1&resourceVersion="+version, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", "application/vnd.kubernetes.protobuf;stream=watch")
	response, err := i.http.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	reader := bufio.NewReader(response.Body)
	var length uint32
	if err := binary.Read(reader, binary.BigEndian, &length); err != nil {
		t.Fatal(err)
	}
	frame := make([]byte, length)
	if _, err := io.ReadFull(reader, frame); err != nil {
		t.Fatal(err)
	}
	var event metav1.WatchEvent
	var envelope runtime.Unknown
	var object kubev1.Service
	if err := event.Unmarshal(frame); err != nil {
		t.Fatal(err)
	}
	if err := envelope.Unmarshal(event.Object.Raw[4:]); err != nil {
		t.Fatal(err)
	}
	if err := object.Unmarshal(envelope.Raw); err != nil || event.Type != "DELETED" || object.Name != "a" || envelope.Kind != "Service" || object.ResourceVersion <= version {
		t.Errorf("%s %v %v, %v", event.Type, envelope.TypeMeta, object.ObjectMeta, err)
	}
}

func TestWatchInOtherForms(t *testing.T) {
	i := install(t, false)
	table := i.watch(i.http, services, "Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	partial := i.watch(i.http, services, "Accept", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io")
	i.must("POST", services, service("a", "x"))
	if e := kittest.Receive(t, "a table", table); e.Type != "ADDED" || !strings.Contains(string(e.Object), `"rows":[{"cells":["a","ClusterIP"`) {
		t.Errorf("%s %s", e.Type, e.Object)
	}
	if e := expect(t, partial, "ADDED a"); strings.Contains(string(e.Object), `"spec":`) || !strings.Contains(string(e.Object), `"kind":"PartialObjectMetadata"`) {
		t.Errorf("%s", e.Object)
	}
}

// TestQuietWatchStays checks that a watch without events outlives the time that a client has to read,
// with HTTP/2.
func TestQuietWatchStays(t *testing.T) {
	i := install(t, true, func(c *kubeapi.Config) { c.SendTimeout = 300 * time.Millisecond })
	version := i.must("GET", services, "")
	quiet := i.watch(i.http, services+"?resourceVersion="+version)
	clock := i.watch(i.http, services+"?timeoutSeconds=1&resourceVersion="+version)
	for range clock { // until it is over
	}
	i.must("POST", services, service("a", "x"))
	expect(t, quiet, "ADDED a")
}
