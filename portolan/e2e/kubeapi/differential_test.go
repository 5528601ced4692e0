package kubeapi

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

var (
	record = flag.String("record", "", "record the answers of this API server of Kubernetes, such as https://127.0.0.1:6443, into the files of TestDifferential")
	token  = flag.String("token", "", "bearer token for -record")
)

// TestDifferential sends the requests of testdata/differential and compares the answers, field by field,
// with the answers of Kubernetes. A difference fails the test unless the table of differences has it. An
// entry of the table that is no difference any more fails it too.
func TestDifferential(t *testing.T) {
	files, err := filepath.Glob("testdata/differential/*.http")
	if err != nil || len(files) == 0 {
		t.Fatal("no files", err)
	}
	var at *caller
	if *record != "" {
		at = &caller{url: *record, token: *token, http: &http.Client{Transport: &http.Transport{
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // #nosec G402 -- the certificate of a server that was started for the recording
		}}}
	} else {
		i := install(t, false)
		at = &caller{url: i.url, http: i.http}
	}
	compared, requests := 0, 0
	for _, path := range files {
		file, err := readExchanges(path)
		if err != nil {
			t.Fatal(err)
		}
		requests += len(file.exchanges)
		t.Run(file.topic(), func(t *testing.T) {
			if *record != "" {
				at.record(t, file)
			} else {
				at.compare(t, file)
				compared++
			}
		})
	}
	if compared == len(files) { // otherwise the files that -run leaves out may have the differences
		reportUnused(t)
	}
	t.Logf("%d requests", requests)
}

// caller sends the requests of files to a server.
type caller struct {
	url, token string
	http       *http.Client
	saved      map[string]string
}

// record replaces the answers in a file by the server's.
func (c *caller) record(t *testing.T, file *exchangeFile) {
	c.saved = map[string]string{}
	version, _ := c.send(t, &exchange{method: http.MethodGet, path: "/version"})
	file.version = strings.Trim(version["gitVersion"], `"`)
	names := newNamer()
	for _, x := range file.exchanges {
		fields, tree := c.send(t, x)
		c.save(t, x, tree)
		names.replace(fields)
		x.answer = fields
	}
	if err := file.write(); err != nil {
		t.Fatal(err)
	}
}

// compare compares the answers of the server with the answers in a file.
func (c *caller) compare(t *testing.T, file *exchangeFile) {
	c.saved = map[string]string{}
	known := newValues()
	for _, x := range file.exchanges {
		if x.noAnswer {
			t.Errorf("%s: no answer is recorded", x.name)
			continue
		}
		have, tree := c.send(t, x)
		c.save(t, x, tree)
		name := file.topic() + "/" + x.name
		for _, d := range differences(x.answer, have, known) {
			if !listed(name, d) {
				t.Errorf("%s: %s %s\n\t%s is %s\n\twant %s", x.name, x.method, x.path, d.path, d.have, d.want)
			}
		}
	}
}

// save keeps the values that later requests name.
func (c *caller) save(t *testing.T, x *exchange, tree any) {
	for _, note := range x.notes {
		if note[0] == "save" {
			text, ok := at(tree, note[2]).(string)
			if !ok {
				t.Errorf("%s: the answer has no %s: %s", x.name, note[2], inJSON(tree))
			}
			c.saved[note[1]] = text
		}
	}
}

// fill replaces the names in double braces by the values that were saved.
func (c *caller) fill(text string, escape func(string) string) string {
	for name, value := range c.saved {
		text = strings.ReplaceAll(text, "{{"+name+"}}", escape(value))
	}
	return text
}

func asIs(text string) string { return text }

// send sends a request and returns the fields of the answer, and its body as a tree of JSON.
func (c *caller) send(t *testing.T, x *exchange) (answerFields, any) {
	t.Helper()
	body := []byte(c.fill(x.body, asIs))
	if kind, ok := x.note("protobuf"); ok {
		body = inProtobuf(t, body, kind[0], kind[1])
	}
	request, err := http.NewRequestWithContext(t.Context(), x.method, c.url+c.fill(x.path, url.QueryEscape), bytes.NewReader(body))
	if err != nil {
		t.Fatalf("%s: %v", x.name, err)
	}
	for _, header := range x.headers {
		request.Header.Set(header[0], header[1])
	}
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	response, err := c.http.Do(request)
	if err != nil {
		t.Fatalf("%s: %v", x.name, err)
	}
	defer func() { _ = response.Body.Close() }()
	fields := answerFields{"HTTP code": strconv.Itoa(response.StatusCode)}
	for _, name := range []string{"Content-Type", "Retry-After", "Allow"} {
		if value := response.Header.Get(name); value != "" {
			fields["HTTP "+name] = inJSON(value)
		}
	}
	for n, warning := range response.Header.Values("Warning") {
		fields[fmt.Sprintf("HTTP Warning[%d]", n)] = inJSON(warning)
	}
	tree := readTree(t, x, response)
	for _, note := range x.notes {
		switch note[0] {
		case "keep":
			keep(tree, strings.Split(note[1], "."), note[2], note[3:])
		case "owners":
			showOwners(tree)
		case "sort":
			sortItems(tree, note[1], note[2:])
		}
	}
	if tree != nil {
		fields.add("", tree)
	}
	return fields, tree
}

// readTree reads the body of an answer in any encoding.
func readTree(t *testing.T, x *exchange, response *http.Response) (tree any) {
	t.Helper()
	mediaType, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")) //nolint:errcheck // then it is a text
	if strings.Contains(x.path, "?watch") && !strings.Contains(x.path, "watch=false") && response.StatusCode == http.StatusOK {
		return map[string]any{"events": readEvents(t, x, response.Body)}
	}
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("%s: %v", x.name, err)
	}
	switch mediaType {
	case "application/json":
	case "application/yaml":
		text, err = yaml.YAMLToJSON(text)
	case "application/vnd.kubernetes.protobuf":
		text, err = fromProtobuf(text)
	default:
		if len(text) == 0 {
			return nil
		}
		return map[string]any{"text": string(text)}
	}
	if len(text) > 0 && err == nil {
		err = json.Unmarshal(text, &tree)
	}
	if err != nil {
		t.Errorf("%s: the body is no %s: %v: %s", x.name, mediaType, err, text)
	}
	return tree
}

// readEvents reads the events of a watch, as many as the exchange says, or all.
func readEvents(t *testing.T, x *exchange, from io.Reader) (events []any) {
	t.Helper()
	most := -1
	if note, ok := x.note("events"); ok {
		most, _ = strconv.Atoi(note[0])
	}
	decoder := json.NewDecoder(bufio.NewReader(from))
	for len(events) != most {
		var one any
		if err := decoder.Decode(&one); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%s: %v", x.name, err)
		}
		events = append(events, one)
	}
	return events
}

// inProtobuf returns an object in JSON as protobuf.
func inProtobuf(t *testing.T, text []byte, version, kind string) []byte {
	t.Helper()
	o, _, err := scheme.Codecs.UniversalDeserializer().Decode(text, nil, nil)
	if err != nil {
		t.Fatalf("%s %s: %v", version, kind, err)
	}
	var out bytes.Buffer
	if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(o, &out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// fromProtobuf returns an object in protobuf as JSON.
func fromProtobuf(body []byte) ([]byte, error) {
	types := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(types), metav1.AddMetaToScheme(types)); err != nil {
		return nil, err
	}
	into, _, err := protobuf.NewSerializer(types, types).Decode(body, nil, nil)
	if err != nil {
		return nil, err
	}
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(into)
	if err != nil {
		return nil, err
	}
	return json.Marshal(tree)
}
