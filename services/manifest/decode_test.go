package manifest_test

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/manifest"
	"portolan.dev/services/object"
)

const service = "apiVersion: v1\nkind: Service\nmetadata:\n  name: web\nspec:\n  ports:\n  - port: 80\n"

const quantities = "apiVersion: v1\nkind: Pod\nspec: {containers: [{resources: {limits: {cpu: Q, a: 2, b: 500m, c: ' 64Mi ', d: 1.5, e: 1e3, f: -.5k}}}]}\n"

// problems decodes a manifest and returns its problems as text.
func problems(t *testing.T, text string) []string {
	t.Helper()
	_, err := manifest.Decode(strings.NewReader(text), "web.yaml")
	if err == nil {
		return nil
	}
	var found manifest.Problems
	if !errors.As(err, &found) {
		t.Fatalf("%T: %v", err, err)
	}
	lines := make([]string, len(found))
	for i, problem := range found {
		lines[i] = problem.Error()
	}
	return lines
}

func TestMistakes(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       []string // beginning of each problem
	}{
		{"no mistake", service, nil},
		{"unknown field", service + "    prot: TCP\n    targetPorts: 1\n", []string{
			"web.yaml:8:5: spec.ports[0].prot: unknown field", "web.yaml:9:5: spec.ports[0].targetPorts: unknown field; did you mean targetPort?",
		}},
		{"quantities", strings.ReplaceAll(quantities, "Q", "1Gi"), nil},
		{"quantity without a number", strings.ReplaceAll(quantities, "Q", "Mi"), []string{
			"web.yaml:3:48: spec.containers[0].resources.limits[cpu]: must be a quantity such as 2, 500m or 64Mi, not \"Mi\"",
		}},
		{"quantity of gigabytes of digits", strings.ReplaceAll(quantities, "Q", "123456789012345678901e999999999"), []string{
			"web.yaml:3:48: spec.containers[0].resources.limits[cpu]: must be a quantity",
		}},
		{"list for a quantity", strings.ReplaceAll(quantities, "Q", "[]"), []string{
			"web.yaml:3:48: spec.containers[0].resources.limits[cpu]: must be a quantity such as 2, 500m or 64Mi, not a list",
		}},
		{"unknown field at the top", "spce: {}\n" + service, []string{"web.yaml:1:1: spce: unknown field; did you mean spec?"}},
		{"field given twice", service + "    port: 81\n", []string{"web.yaml:8:5: spec.ports[0].port: is given twice, first on line 7"}},
		{"key given twice", service + "  selector: {a: b, a: c}\n", []string{"web.yaml:8:20: spec.selector[a]: is given twice, first on line 8"}},
		{"number for text", service + "  clusterIP: 10\n", []string{"web.yaml:8:14: spec.clusterIP: must be a text, not the number 10; put it in quotes"}},
		{"text for number", strings.Replace(service, "80", "http", 1), []string{"web.yaml:7:11: spec.ports[0].port: must be a whole number, not the text \"http\""}},
		{"fraction", strings.Replace(service, "80", "80.5", 1), []string{"web.yaml:7:11: spec.ports[0].port: must be a whole number of 32 bits, not 80.5"}},
		{"too large", strings.Replace(service, "80", "8000000000", 1), []string{"web.yaml:7:11: spec.ports[0].port: must be a whole number of 32 bits"}},
		{"object for list", strings.Replace(service, "  - port", "    port", 1), []string{"web.yaml:7:5: spec.ports: must be a list, not an object"}},
		{"list for object", service + "  selector: [a]\n", []string{"web.yaml:8:13: spec.selector: must be an object, not a list"}},
		{"text for boolean", service + "  publishNotReadyAddresses: maybe\n", []string{"web.yaml:8:29: spec.publishNotReadyAddresses: must be true or false"}},
		{"port of neither kind", service + "    targetPort: [80]\n", []string{"web.yaml:8:17: spec.ports[0].targetPort: must be a number or the name of a port"}},
		{"label without quotes", service + "  selector: {a: true}\n", []string{"web.yaml:8:17: spec.selector[a]: must be a text, not the boolean true; put it in quotes"}},
		{"time", service + "status:\n  conditions:\n  - lastTransitionTime: yesterday\n", []string{"web.yaml:10:25: status.conditions[0].lastTransitionTime: parsing time"}},
		{"words of enums", service + "    protocol: tcp\n  type: clusterip\n  ipFamilies: [IPv4, ipv6]\n", []string{
			"web.yaml:9:9: spec.type: unsupported value \"clusterip\": supported are ClusterIP, NodePort, LoadBalancer, ExternalName",
			"web.yaml:10:22: spec.ipFamilies[1]: unsupported value \"ipv6\": supported are IPv4, IPv6",
			"web.yaml:8:15: spec.ports[0].protocol: unsupported value \"tcp\": supported are TCP, UDP, SCTP",
		}},
		{"resource version", strings.Replace(service, "web\n", "web\n  resourceVersion: abc\n", 1), []string{"web.yaml:5:20: metadata.resourceVersion: invalid value \"abc\""}},
		{"no kind", "metadata:\n  name: web\n", []string{"web.yaml:1:1: apiVersion: required", "web.yaml:1:1: kind: required"}},
		{"no object", "just words\n", []string{"web.yaml:1:1: a document must be an object"}},
		{"items of no list", "apiVersion: v1\nkind: List\nitems: {}\n", []string{"web.yaml:3:8: items: must be a list"}},
		{"mistakes in two documents", "spce: {}\n" + service + "---\n" + service + "  prots: []\n", []string{
			"web.yaml:1:1: spce: unknown field", "web.yaml:17:3: spec.prots: unknown field; did you mean ports?",
		}},
		{"a mistake within a List", "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Service\n  spec:\n    prots: []\n", []string{"web.yaml:7:5: spec.prots: unknown field"}},

		{"YAML: colon", "a: b\nc: d: e\n", []string{"web.yaml:2:4: malformed YAML: mapping value is not allowed"}},
		{"YAML: tab", "a: b\n\tc: d\n", []string{"web.yaml:2:1: malformed YAML: found character '\t'"}},
		{"YAML: indentation", "a:\n  - b\n c: d\n", []string{"web.yaml:3:2: malformed YAML: value is not allowed"}},
		{"YAML: bracket", "a: [1, 2\nb: c\n", []string{"web.yaml:2:1: malformed YAML: ',' or ']' must be specified"}},
		{"YAML: quote", service + "  clusterIP: \"10\n", []string{"web.yaml:8:14: malformed YAML: could not find end character of double-quoted text"}},
		{"YAML: quote in the second document", service + "---\n" + service + "  clusterIP: \"10\n", []string{"web.yaml:16:14: malformed YAML: could not find end"}},
		{"YAML: alias of nothing", "a: *b\n", []string{"web.yaml:1:1: malformed YAML: unknown anchor 'b' referenced"}},
		{"YAML: alias of itself", "a: &a [*a]\n", []string{"web.yaml:1:4: nested more than 100 levels deep"}},
		{"YAML: key of many words", "? [a, b]\n: c\n", []string{"web.yaml:1:3: a key must be a single word"}},
		{"YAML: not a number", "a: .nan\n", []string{"web.yaml:1:4: .nan is no number"}},
		{"JSON: bracket", "{\"a\": [1, 2\n}", []string{"web.yaml:2:1: malformed JSON: invalid character '}'"}},
		{"JSON: end", "{\"apiVersion\": \"v1\",\n", []string{"web.yaml:2:1: malformed JSON: unexpected end"}},
		{"JSON: literal", "{\n  \"a\": tru,\n  \"b\": [}\n}", []string{"web.yaml:2:8: malformed JSON: invalid character ',' in literal true"}},
		{"JSON: unknown field", "{\"apiVersion\": \"v1\", \"kind\": \"Service\",\n  \"spce\": {}}", []string{"web.yaml:2:3: spce: unknown field; did you mean spec?"}},
		{"JSON: depth", strings.Repeat("{\"a\":", 200) + "1" + strings.Repeat("}", 200), []string{"web.yaml:1:506: nested more than 100 levels deep"}},
		{"not UTF-8", "a: b\nc: \xff\n", []string{"web.yaml:2:4: this is not UTF-8"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := problems(t, test.text); !slices.EqualFunc(got, test.want, strings.HasPrefix) {
				t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(test.want, "\n  "))
			}
		})
	}
}

// TestGoodDocumentsBesideBadOnes checks that a mistake in one document does not hide the others.
func TestGoodDocumentsBesideBadOnes(t *testing.T) {
	documents, err := manifest.Decode(strings.NewReader(service+"---\nkind: [\n---\n"+service), "web.yaml")
	if len(documents) != 2 || documents[1].Line != 11 || err == nil {
		t.Errorf("%d documents, %v", len(documents), err)
	}
}

func TestStreams(t *testing.T) {
	const jsonService = "{\"apiVersion\": \"v1\", \"kind\": \"Service\", \"metadata\": {\"name\": \"web\"}}"
	for _, test := range []struct {
		name, text string
		want       []string // kind/name@line, skipped ones in parentheses
	}{
		{"nothing", "", nil},
		{"only comments", "# nothing\n---\n# still\n---\n...\n", nil},
		{"null", "---\nnull\n", nil},
		{"one", service, []string{"Service/web@1"}},
		{"without final newline", strings.TrimSpace(service), []string{"Service/web@1"}},
		{"two, with empty ones between", "---\n" + service + "---\n---\n# comment\n---  \n" + service, []string{"Service/web@2", "Service/web@13"}},
		{"Windows lines", strings.ReplaceAll(service+"---\n"+service, "\n", "\r\n"), []string{"Service/web@1", "Service/web@9"}},
		{"byte order mark", "\ufeff" + service, []string{"Service/web@1"}},
		{"directive", "%YAML 1.1\n---\n" + service, []string{"Service/web@3"}},
		{"document on the line of its separator", "--- {apiVersion: v1, kind: Namespace, metadata: {name: a}}\n", []string{"Namespace/a@1"}},
		{"documents separated by dots", service + "...\n---\n" + service, []string{"Service/web@1", "Service/web@10"}},
		{"three dashes in a text", strings.Replace(service, "web\n", "web\n  annotations:\n    a: |\n      ---\n      b\n", 1), []string{"Service/web@1"}},
		{"JSON", jsonService, []string{"Service/web@1"}},
		{"JSON with tabs", strings.ReplaceAll(jsonService, " ", "\n\t"), []string{"Service/web@1"}},
		{"JSON, several", jsonService + "\n" + jsonService + "---\n", nil},
		{"JSON, several well separated", jsonService + "\n" + jsonService + "\n---\n" + service, []string{"Service/web@1", "Service/web@2", "Service/web@4"}},
		{"flow style", "{apiVersion: v1, kind: Service, metadata: {name: web}}", []string{"Service/web@1"}},
		{"foreign", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: prod}\nspec: {anything: [1]}\n---\n" + service, []string{"(apps/v1 Deployment web)@1", "Service/web@6"}},
		{"foreign version", "apiVersion: v2\nkind: Service\n", []string{"(v2 Service )@1"}},
		{"List", "apiVersion: v1\nkind: List\nmetadata: {resourceVersion: ''}\nitems:\n- apiVersion: v1\n  kind: Namespace\n  metadata: {name: a}\n- apiVersion: apps/v1\n  kind: Deployment\n  metadata: {name: b}\n", []string{"Namespace/a@5", "(apps/v1 Deployment b)@8"}},
		{"List in a List", "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Node, metadata: {name: n}}]}\n", []string{"Node/n@4"}},
		{"empty List", "apiVersion: v1\nkind: List\nitems:\n", nil},
		{"ServiceList", "apiVersion: v1\nkind: ServiceList\nitems:\n- metadata: {name: a}\n- metadata: {name: b}\n", []string{"Service/a@4", "Service/b@5"}},
		{"EndpointSliceList", "{\"apiVersion\": \"discovery.k8s.io/v1\", \"kind\": \"EndpointSliceList\", \"items\": [{\"metadata\": {\"name\": \"a\"}, \"addressType\": \"IPv4\", \"endpoints\": null}]}", []string{"EndpointSlice/a@1"}},
		{"anchors and merges", "apiVersion: v1\nkind: Service\nmetadata: {name: web, labels: &l {a: b, c: d}}\nspec:\n  selector:\n    <<: *l\n    c: e\n", []string{"Service/web@1"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			documents, err := manifest.Decode(strings.NewReader(test.text), "test")
			if test.name == "JSON, several" { // the text after the second document is on the same line
				if err == nil || len(documents) != 2 {
					t.Errorf("%d documents, %v", len(documents), err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := summarise(documents); !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func summarise(documents []manifest.Document) []string {
	var lines []string
	for _, document := range documents {
		line := "@" + strconv.Itoa(document.Line)
		if document.Skipped != nil {
			lines = append(lines, "("+document.Skipped.String()+")"+line)
		} else {
			lines = append(lines, object.KindOf(document.Object)+"/"+document.Object.GetMetadata().GetName()+line)
		}
	}
	return lines
}

func TestMergesAndOldWords(t *testing.T) {
	documents := decode(t, "apiVersion: v1\nkind: Service\nmetadata: {name: web, labels: &l {a: b, c: d}}\nspec:\n  publishNotReadyAddresses: yes\n  selector:\n    <<: *l\n    c: e\n  ports:\n  - port: 0x50\n    targetPort: \"80\"\n")
	svc := documents[0].Object.(*corev1.Service)
	if s := svc.Spec; s.Selector["a"] != "b" || s.Selector["c"] != "e" || !s.PublishNotReadyAddresses || s.Ports[0].Port != 80 || s.Ports[0].TargetPort.GetName() != "80" {
		t.Errorf("got %v", s)
	}
}

func TestOldEndpointSlice(t *testing.T) {
	documents := decode(t, `
apiVersion: discovery.k8s.io/v1beta1
kind: EndpointSlice
metadata: {name: a}
addressType: IPv4
endpoints:
- addresses: [10.0.0.1]
  topology: {kubernetes.io/hostname: n1, topology.kubernetes.io/zone: z1, rack: r1}
- addresses: [10.0.0.2]
  nodeName: n2
  topology: {kubernetes.io/hostname: other}
`)
	slice := documents[0].Object.(*corev1.EndpointSlice)
	first, second := slice.Endpoints[0], slice.Endpoints[1]
	if first.GetNodeName() != "n1" || first.GetZone() != "z1" || len(first.DeprecatedTopology) != 1 || first.DeprecatedTopology["rack"] != "r1" ||
		second.GetNodeName() != "n2" || len(second.DeprecatedTopology) != 0 {
		t.Errorf("got %v", slice)
	}
}

func TestDropped(t *testing.T) {
	documents := decode(t, `
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  serviceAccountName: robot
  securityContext: {}
  volumes:
  - name: data
    emptyDir: {}
  containers:
  - name: c
    image: nginx
    resources: {limits: {cpu: 100m, memory: 1Gi}}
    env:
    - {name: A, value: a}
    - {name: B, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
    readinessProbe: {exec: {command: ["true"]}}
  - name: d
    env: [{name: C}]
    volumeMounts: [{name: data, mountPath: /data}]
`)
	want := []string{"dropped, as Portolan has no use for it: spec.containers[*].env[*].valueFrom, " +
		"spec.containers[*].resources, spec.containers[*].volumeMounts, spec.serviceAccountName, spec.volumes"}
	if got := documents[0].Warnings; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	pod := documents[0].Object.(*corev1.Pod)
	if c := pod.Spec.Containers[0]; len(c.Env) != 1 || c.Env[0].Name != "A" || c.ReadinessProbe.GetExec().GetCommand()[0] != "true" || len(pod.Spec.Containers[1].Env) != 1 {
		t.Errorf("got %v", pod.Spec)
	}
}
