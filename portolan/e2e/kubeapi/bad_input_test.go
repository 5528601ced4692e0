package kubeapi

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"portolan.dev/kubeapi"
	"portolan.dev/services/kit/kittest"
)

// mostMemory is the memory, in bytes, that one malicious request may make the whole process of the test
// allocate at a time: kubeapi, the registry and the client. A body of the largest size is in memory several
// times: as it was read, decoded, and encoded for the registry.
const mostMemory = 256 << 20

// bounded runs a function and fails the test if the heap grows by more than mostMemory meanwhile.
func bounded(t *testing.T, name string, f func()) {
	t.Helper()
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	done := make(chan struct{})
	peak := make(chan uint64)
	go func() {
		var most uint64
		for {
			select {
			case <-done:
				peak <- most
				return
			case <-time.After(5 * time.Millisecond):
				runtime.ReadMemStats(&now)
				most = max(most, now.HeapInuse)
			}
		}
	}()
	f()
	close(done)
	if most := <-peak; most > before.HeapInuse+mostMemory {
		t.Errorf("%s: the heap grew from %d to %d MiB", name, before.HeapInuse>>20, most>>20)
	}
}

// TestBadBodies sends bodies that are malformed, too large, or small and meant to become large.
func TestBadBodies(t *testing.T) {
	i := install(t, false)
	i.must("POST", services, service("web", "x"))
	const operations, strategic, yaml, protobuf = "application/json-patch+json", "application/strategic-merge-patch+json", "application/yaml", "application/vnd.kubernetes.protobuf"
	const nodes, endless = "/api/v1/nodes", `"status":{"capacity":{"cpu":"123456789012345678901e9999999999"}}`
	i.must("POST", nodes, `{"metadata":{"name":"n1"}}`)
	one, huge := services+"/web", strings.Repeat("x", 4<<20)
	aliases := "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
	for n := 'b'; n < 'k'; n++ {
		aliases += fmt.Sprintf("%c: &%c [%s]\n", n, n, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c,", n-1), 10), ","))
	}
	copies := `[{"op":"add","path":"/metadata/annotations","value":{"a":"` + strings.Repeat("x", 1<<16) + `"}}`
	for n := range 5000 {
		copies += fmt.Sprintf(`,{"op":"copy","from":"/metadata/annotations/a","path":"/metadata/annotations/a%d"}`, n)
	}
	doubling := `[{"op":"add","path":"/metadata/annotations","value":{"a":{"x":"y"}}}`
	for n := range 40 {
		doubling += fmt.Sprintf(`,{"op":"copy","from":"/metadata/annotations/a","path":"/metadata/annotations/a/c%d"}`, n)
	}
	var ports []string
	for n := range 60000 {
		ports = append(ports, fmt.Sprintf(`{"port":%d}`, n))
	}
	for _, c := range []struct {
		name, method, path, kind, body string
		code                           int
	}{
		{"half a JSON", "POST", services, "", `{"metadata":{"name":"x"},"spec":{"ports":[{"port":80}`, 400},
		{"control characters", "POST", services, "", "{\"metadata\":{\"name\":\"\x00\x01\"}}", 400},
		{"no UTF-8", "POST", services, "", "{\"metadata\":{\"name\":\"\xff\xfe\"},\"spec\":{\"ports\":[{\"port\":80}]}}", 422},
		{"a number without end", "POST", services, "", `{"metadata":{"generation":` + strings.Repeat("9", 1<<20) + `}}`, 400},
		{"deep JSON", "POST", services, "", strings.Repeat("[", 1<<20), 400},
		{"deep objects", "POST", services, "", strings.Repeat(`{"metadata":`, 1<<17), 400},
		{"many unknown fields", "POST", services + "?fieldValidation=Strict", "", `{"a":1` + strings.Repeat(`,"a":1`, 1<<18) + `}`, 400},
		{"half a YAML", "POST", services, yaml, "metadata:\n  name: [x", 400},
		{"deep YAML", "POST", services, yaml, strings.Repeat("[", 1<<20), 400},
		{"a YAML of aliases", "POST", services, yaml, aliases, 400},
		{"a YAML that refers to itself", "POST", services, yaml, "metadata: &a\n  labels: *a", 400},
		{"no protobuf", "POST", services, protobuf, "x", 400},
		{"half a protobuf", "POST", services, protobuf, "k8s\x00\x0a\xff\xff\xff\x7f", 400},
		{"a protobuf with a long string", "POST", services, protobuf, "k8s\x00\x12\xff\xff\xff\xff\x07x", 400},
		{"a huge body", "POST", services, "", huge, 413},
		{"a huge patch", "PATCH", one, merge, huge, 413},
		{"a huge update", "PUT", one, "", huge, 413},
		{"huge options of a deletion", "DELETE", one, "", huge, 413},
		{"too many operations", "PATCH", one, operations, `[` + strings.Repeat(`{"op":"test","path":"/kind","value":"Service"},`, 10000) + `{"op":"remove","path":"/a"}]`, 413},
		{"a patch that copies a text", "PATCH", one, operations, copies + `]`, 422},
		{"a patch that doubles an object", "PATCH", one, operations, doubling + `]`, 422},
		{"a deep patch", "PATCH", one, merge, strings.Repeat(`{"metadata":`, 1<<17), 400},
		{"a strategic patch with many ports", "PATCH", one, strategic, `{"spec":{"ports":[` + strings.Join(ports, ",") + `]}}`, 413},
		{"a strategic patch with as many ports as it may have", "PATCH", one, strategic, `{"spec":{"ports":[` + strings.Join(ports[:4900], ",") + `]}}`, 422},
		{"a strategic patch in an order of many", "PATCH", one, strategic, `{"spec":{"$setElementOrder/ports":[` + strings.Join(ports[:20000], ",") + `],"ports":[{"port":1}]}}`, 413},
		{"a patch of a path with many parts", "PATCH", one, operations, `[{"op":"add","path":"` + strings.Repeat("/a", 1<<19) + `","value":1}]`, 422},
		{"a quantity without end", "POST", nodes, "", `{"metadata":{"name":"n2"},` + endless + `}`, 400},
		{"a merge of a quantity without end", "PATCH", nodes + "/n1/status", merge, `{` + endless + `}`, 422},
		{"an apply of a quantity without end", "PATCH", nodes + "/n1/status?fieldManager=a", "application/apply-patch+yaml", `{"apiVersion":"v1","kind":"Node","metadata":{"name":"n1"},` + endless + `}`, 400},
		{"an unknown group", "POST", "/apis/nope/v1/namespaces/default/things", "", `{}`, 404},
		{"a long name", "GET", services + "/" + strings.Repeat("x", 1<<16), "", "", 431},
		{"a long path", "GET", "/api/v1" + strings.Repeat("/x", 1<<15), "", "", 431},
		{"a path with dots", "GET", "/api/v1/namespaces/default/services/..%2f..%2fnodes", "", "", 404},
		{"ten thousand labels", "GET", services + "?labelSelector=" + strings.TrimSuffix(strings.Repeat("a%3Db,", 10000), ","), "", "", 431},
		{"two thousand labels", "GET", services + "?labelSelector=" + strings.TrimSuffix(strings.Repeat("a%3Db,", 2000), ","), "", "", 200},
		{"a set of ten thousand", "GET", services + "?labelSelector=a+in+(" + strings.TrimSuffix(strings.Repeat("b,", 10000), ",") + ")", "", "", 200},
		{"ten thousand fields", "GET", services + "?fieldSelector=" + strings.TrimSuffix(strings.Repeat("metadata.name%3Db,", 10000), ","), "", "", 431},
		{"ten thousand options", "GET", services + "?" + strings.Repeat("dryRun=All&", 10000) + "resourceVersion=x", "", "", 431},
		{"a forged page token", "GET", services + "?limit=1&continue=AAAA", "", "", 400},
		{"a page token of another list", "GET", "/api/v1/pods?limit=1&continue=bm9uZQAxAABhAA", "", "", 400},
		{"a long page token", "GET", services + "?continue=" + strings.Repeat("A", 1<<16), "", "", 431},
	} {
		bounded(t, c.name, func() {
			headers := []string{}
			if c.kind != "" {
				headers = []string{"Content-Type", c.kind}
			}
			begun := time.Now()
			a := i.send(c.method, c.path, c.body, headers...)
			// The library refuses headers and paths of more than 64 KiB itself, without a Status.
			isStatus := strings.Contains(a.body, `"kind":"Status"`) && strings.Contains(a.body, fmt.Sprintf(`"code":%d`, c.code))
			wantStatus := c.code >= 400 && c.code != http.StatusRequestHeaderFieldsTooLarge
			if a.code != c.code || isStatus != wantStatus || len(a.body) > 64<<10 {
				t.Errorf("%s: %d, %d bytes: %.300s, want a Status with %d", c.name, a.code, len(a.body), a.body, c.code)
			}
			if took := time.Since(begun); took > 20*time.Second {
				t.Errorf("%s took %v", c.name, took)
			}
		})
	}
	if a := i.get(one); a.code != http.StatusOK || strings.Contains(a.body, "annotations") {
		t.Errorf("afterwards: %d %s", a.code, a.body)
	}
}

// TestBodyWithoutLength sends a body that never ends, without its length, and a compressed one.
func TestBodyWithoutLength(t *testing.T) {
	i := install(t, false)
	bounded(t, "a body that never ends", func() {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, i.url+services, io.MultiReader(strings.NewReader(`{"a":"`), endless{}))
		if err != nil {
			t.Fatal(err)
		}
		response, err := i.http.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = response.Body.Close() }()
		if response.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("%d", response.StatusCode)
		}
	})
	bounded(t, "a compressed body", func() {
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		if _, err := io.CopyN(w, endless{}, 256<<20); err != nil || w.Close() != nil {
			t.Fatal(err)
		}
		// Bodies are not unpacked, as in Kubernetes.
		a := i.send(http.MethodPost, services, packed.String(), "Content-Encoding", "gzip")
		if a.code != http.StatusBadRequest || !strings.Contains(a.body, `"kind":"Status"`) {
			t.Errorf("%d %.200s", a.code, a.body)
		}
	})
}

// endless is a text without end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for n := range p {
		p[n] = 'x'
	}
	return len(p), nil
}

// TestSlowBody sends a part of a body, and waits. It must not hold one of the requests that are served
// at a time, whether the server wants the body or not.
func TestSlowBody(t *testing.T) {
	i := install(t, false, func(c *kubeapi.Config) { c.SendTimeout, c.MaxRequests = 300*time.Millisecond, 1 })
	for request, code := range map[string]int{
		"POST " + services: http.StatusBadRequest, "GET " + services: http.StatusOK, "POST /nope": http.StatusNotFound,
		"POST " + services + "?dryRun=x": http.StatusUnprocessableEntity, "GET " + services + "?watch=1&timeoutSeconds=1&resourceVersion=0": http.StatusOK,
	} {
		conn := i.connect()
		if _, err := fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{", request); err != nil {
			t.Fatal(err)
		}
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("%s: %v", request, err)
		}
		if response.StatusCode != code {
			t.Errorf("%s: %d, want %d", request, response.StatusCode, code)
		}
		_ = response.Body.Close()
		kittest.Eventually(t, "another request", func() error {
			if a := i.get(services); a.code != http.StatusOK {
				return fmt.Errorf("%d %s", a.code, a.body)
			}
			return nil
		})
	}
}

// connect opens a connection to kubeapi.
func (i *installation) connect() net.Conn {
	i.Helper()
	conn, err := (&net.Dialer{}).DialContext(i.Context(), "tcp", strings.TrimPrefix(i.url, "http://"))
	if err != nil {
		i.Fatal(err)
	}
	i.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second)) // a pipe of a test has none
	return conn
}

// TestWatchesThatNobodyReads opens watches, never reads from them, and writes objects meanwhile.
func TestWatchesThatNobodyReads(t *testing.T) {
	const watches, limit = 400, 300
	i := install(t, false, func(c *kubeapi.Config) { c.MaxWatches, c.SendTimeout = limit, time.Second })
	bounded(t, "watches that nobody reads", func() {
		conns := make([]net.Conn, watches)
		for n := range conns {
			conns[n] = i.connect()
			if _, err := fmt.Fprintf(conns[n], "GET %s?watch=1 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", services); err != nil {
				t.Fatal(err)
			}
		}
		kittest.Eventually(t, "the limit of watches", func() error {
			if a := i.get(services + "?watch=1"); a.code != http.StatusTooManyRequests || !strings.Contains(a.body, `"kind":"Status"`) {
				return fmt.Errorf("another watch: %d %s", a.code, a.body)
			}
			return nil
		})
		text := strings.Repeat("x", 100<<10)
		for n := range 50 {
			i.must("POST", services, fmt.Sprintf(`{"metadata":{"name":"s%d","annotations":{"a":"%s"}},"spec":{"clusterIP":"None"}}`, n, text))
		}
		answered := i.get(services + "?limit=1")
		if answered.code != http.StatusOK {
			t.Errorf("a read meanwhile: %d %s", answered.code, answered.body)
		}
		kittest.Eventually(t, "the end of the watches", func() error {
			if a := i.get(services + "?watch=1&resourceVersion=0&labelSelector=nope&timeoutSeconds=1"); a.code != http.StatusOK {
				return fmt.Errorf("another watch: %d %s", a.code, a.body)
			}
			return nil
		})
	})
}
