package kubeapi

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/object"
)

const applyPatch = "application/apply-patch+yaml"

// applied is a manifest of the service web.
func applied(metadata, spec string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Service","metadata":{"name":"web"%s},"spec":{%s}}`, metadata, spec)
}

// owners returns the owners of an object as MANAGER/OPERATION/SUBRESOURCE FIELDS, sorted.
func (a answer) owners(t testing.TB) []string {
	t.Helper()
	var all []string
	for _, entry := range a.object(t).GetManagedFields() {
		all = append(all, fmt.Sprintf("%s/%s/%s %s", entry.Manager, entry.Operation, entry.Subresource, entry.FieldsV1))
	}
	slices.Sort(all)
	return all
}

// expectOwners checks the owners of the fields of an object.
func (i *installation) expectOwners(path string, want ...string) {
	i.Helper()
	if got := i.get(path).owners(i); !slices.Equal(got, want) {
		i.Errorf("owners of %s:\n%s\nwant\n%s", path, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestApplyByManagers has two managers apply one object.
func TestApplyByManagers(t *testing.T) {
	i := install(t, false)
	const (
		one   = services + "/web"
		asA   = one + "?fieldManager=a"
		asB   = one + "?fieldManager=b"
		port  = `"ports":[{"port":80,"targetPort":8080}]`
		owned = `"f:ports":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:port":{},"f:targetPort":{}}}`
		label = `,"labels":{"app":"web"}`
	)
	i.steps(
		step{"PATCH", one, applied("", port), applyPatch, 422, "is required for apply patch"},
		step{"PATCH", one + "?fieldManager=%07", applied("", port), applyPatch, 422, "fieldManager"},
		step{"PATCH", one + "/status?fieldManager=a", applied("", port), applyPatch, 404, "not found"},
		step{"PATCH", asA + "&dryRun=All", applied(label, port), applyPatch, 201, `"clusterIP"`},
		step{"GET", one, "", "", 404, "not found"},
		step{"PATCH", asA, applied(`,"resourceVersion":"1"`, port), applyPatch, 400, "should not be set"},
		step{"PATCH", asA, applied(`,"uid":"1"`, port), applyPatch, 409, "no existing object was found"},
		step{"PATCH", asA, applied(label, port), applyPatch, 201, `"clusterIP"`},
		step{"PATCH", asA, applied(`,"managedFields":[{}]`, port), applyPatch, 400, "metadata.managedFields must be nil"},
		step{"PATCH", asA, strings.Replace(applied(label, port), "Service", "Pod", 1), applyPatch, 400, ""},
		step{"PATCH", asA, applied("", `"misspelt":1`), applyPatch, 400, ".spec.misspelt: field not declared in schema"},
		step{"PATCH", asA, "a: b: c", applyPatch, 400, "error encoding patch"},
		step{"PATCH", asA, "a", applyPatch, 400, "error decoding patch"},
		step{"PATCH", asA, applied(`,"resourceVersion":"1"`, port), applyPatch, 409, "has been modified"},
		step{"PATCH", asA, applied(`,"name":"other"`, port), applyPatch, 400, ""},
		step{"PATCH", asA + "&fieldValidation=Strict", "apiVersion: v1\nkind: Service\nkind: Service\n", applyPatch, 400, "already set"},
	)
	i.expectOwners(one, `a/Apply/ {"f:metadata":{"f:labels":{"f:app":{}}},"f:spec":{`+owned+`}}`)
	version := i.get(one).object(t).GetResourceVersion()
	i.steps(step{"PATCH", asA, applied(label, port), applyPatch, 200, `"resourceVersion":"` + version + `"`})

	i.steps(step{"PATCH", asB, applied(label, strings.Replace(port, "8080", "9090", 1)), applyPatch, 409,
		`{"reason":"FieldManagerConflict","message":"conflict with \"a\"","field":".spec.ports[port=80,protocol=\"TCP\"].targetPort"}`})
	i.steps(step{"PATCH", asB + "&force=true", applied(label, strings.Replace(port, "8080", "9090", 1)), applyPatch, 200, `"targetPort":9090`})
	i.expectOwners(one,
		`a/Apply/ {"f:metadata":{"f:labels":{"f:app":{}}},"f:spec":{`+strings.Replace(owned, `,"f:targetPort":{}`, "", 1)+`}}`,
		`b/Apply/ {"f:metadata":{"f:labels":{"f:app":{}}},"f:spec":{`+owned+`}}`)

	i.steps(
		step{"PATCH", asA, applied("", `"ports":[{"port":80}]`), applyPatch, 200, `"labels":{"app":"web"}`}, // b has the label too
		step{"PATCH", asB, applied("", port+`,"externalIPs":["192.0.2.1"]`), applyPatch, 200, `"targetPort":8080`},
	)
	if labels := i.get(one).object(t).GetLabels(); len(labels) != 0 {
		t.Errorf("labels %v, which nobody applies any more", labels)
	}
	i.steps(step{"PUT", one + "?fieldManager=c", applied("", `"type":"NodePort","ports":[{"port":80,"targetPort":8080}]`), "", 200, `"type":"NodePort"`})
	got := i.get(one).owners(t)
	if want := `b/Apply/ {"f:spec":{` + owned + `}}`; len(got) != 3 || got[1] != want || !strings.HasPrefix(got[2], `c/Update/ {"f:spec":{`) || !strings.Contains(got[2], `"f:type":{}`) {
		t.Errorf("owners after an update that removes the external address: %q", got)
	}
	i.steps(
		step{"PATCH", one + "?fieldManager=d", `{"metadata":{"managedFields":[{}]}}`, merge, 200, ""},
		step{"PATCH", asA, applied(label, `"ports":[{"port":80}]`), applyPatch, 200, ""},
	)
	if got := i.get(one).owners(t); len(got) != 2 || !strings.HasPrefix(got[1], "before-first-apply/Update/") {
		t.Errorf("owners of an object that had none: %q", got)
	}
}

// TestApplyOfWhatIsNotKept checks that a field that Portolan drops has no owner, and that an apply changes
// the annotations that stand for fields of Portolan only if its manager has applied them.
func TestApplyOfWhatIsNotKept(t *testing.T) {
	i := install(t, false)
	const pod = "/api/v1/namespaces/default/pods/p"
	i.steps(
		step{"PATCH", pod + "?fieldManager=a", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},
			"spec":{"hostNetwork":false,"containers":[{"name":"c","image":"i"}],"volumes":[{"name":"v","emptyDir":{}}]}}`, applyPatch, 201, "spec.volumes is dropped"},
		step{"POST", services + "?fieldManager=creator", web, "", 201, ""},
		step{"PATCH", services + "/web?fieldManager=a", applied("", `"ports":[{"port":81,"name":"more"}]`), applyPatch, 200, `"portolan.dev/scheduler":"lc"`},
		step{"PATCH", services + "/web?fieldManager=a", applied(`,"annotations":{"portolan.dev/scheduler":"rr"}`, ""), applyPatch, 409, `".metadata.annotations.portolan.dev/scheduler"`},
		step{"PATCH", services + "/web?fieldManager=a&force=true", applied(`,"annotations":{"portolan.dev/scheduler":"rr"}`, ""), applyPatch, 200, `"portolan.dev/scheduler":"rr"`},
	)
	i.expectOwners(pod, `a/Apply/ {"f:spec":{"f:containers":{"k:{\"name\":\"c\"}":{".":{},"f:image":{},"f:name":{}}}}}`)
	i.steps(step{"PATCH", services + "/web?fieldManager=a", applied("", ""), applyPatch, 200, `"kind":"Service"`})
	if annotations := i.get(services + "/web").object(t).GetAnnotations(); annotations["portolan.dev/scheduler"] == "rr" {
		t.Errorf("annotations %v, of which the only owner no longer applies one", annotations)
	}
}

// TestApplyServiceAndServerSideApply applies one object by ApplyService, as portolan apply does, and by
// managers of Kubernetes' API.
func TestApplyServiceAndServerSideApply(t *testing.T) {
	i := install(t, false)
	client := registryv1.NewApplyServiceClient(i.dial(""))
	apply := func(labels map[string]string, change func(*corev1.ServiceSpec)) *registryv1.ApplyResponse {
		t.Helper()
		s := &corev1.Service{Metadata: &corev1.ObjectMeta{Name: "web", Labels: labels}, Spec: &corev1.ServiceSpec{Ports: []*corev1.ServicePort{{Port: 80}}}}
		change(s.Spec)
		answer, err := client.Apply(t.Context(), &registryv1.ApplyRequest{Object: object.Wrap(s)})
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	least := func(s *corev1.ServiceSpec) { s.Scheduler = corev1.Scheduler_SCHEDULER_LC }
	apply(map[string]string{"a": "1", "b": "1"}, least)
	const owned = `"f:spec":{"f:ports":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:port":{}}}}}`
	i.expectOwners(services+"/web", `apply/Apply/ {"f:metadata":{"f:annotations":{"f:portolan.dev/scheduler":{}},"f:labels":{"f:a":{},"f:b":{}}},`+owned)
	i.steps(
		step{"PATCH", services + "/web?fieldManager=k", applied(`,"labels":{"a":"2"}`, `"ports":[{"port":80}]`), applyPatch, 409, `conflict with \"apply\"`},
		step{"PATCH", services + "/web?fieldManager=k", applied(`,"labels":{"b":"1","c":"1"}`, `"ports":[{"port":80}]`), applyPatch, 200, `"c":"1"`},
	)
	if answer := apply(map[string]string{"c": "2"}, least); len(answer.GetWarnings()) != 1 || !strings.Contains(answer.GetWarnings()[0], `metadata.labels.c: taken from the manager "k"`) {
		t.Errorf("warnings %q", answer.GetWarnings())
	}
	if labels := i.get(services + "/web").object(t).GetLabels(); labels["a"] != "" || labels["b"] != "1" || labels["c"] != "2" {
		t.Errorf("labels %v: a was removed, b is k's too, and c was taken", labels)
	}
	i.expectOwners(services+"/web",
		`apply/Apply/ {"f:metadata":{"f:annotations":{"f:portolan.dev/scheduler":{}},"f:labels":{"f:c":{}}},`+owned,
		`k/Apply/ {"f:metadata":{"f:labels":{"f:b":{}}},`+owned)
	if answer := apply(map[string]string{"c": "2"}, least); answer.GetOutcome() != registryv1.ApplyOutcome_APPLY_OUTCOME_UNCHANGED {
		t.Errorf("the same again: %v", answer.GetOutcome())
	}
	i.steps(step{"PATCH", services + "/web?fieldManager=k", applied("", ""), applyPatch, 200, `"port":80`}) // apply has the port too
	apply(nil, func(*corev1.ServiceSpec) {})
	if o := i.get(services + "/web").object(t); len(o.GetLabels()) != 0 || o.GetAnnotations()["portolan.dev/scheduler"] == "lc" {
		t.Errorf("%v %v: nobody applies them", o.GetLabels(), o.GetAnnotations())
	}
}

// TestApplyConfigurations applies an object and its status with client-go, as controllers do.
func TestApplyConfigurations(t *testing.T) {
	i := install(t, true)
	client := clientOf(i, "application/json").CoreV1().Services("default")
	service := corev1ac.Service("web", "default").WithSpec(corev1ac.ServiceSpec().WithPorts(corev1ac.ServicePort().WithPort(80)))
	made, err := client.Apply(t.Context(), service, metav1.ApplyOptions{FieldManager: "maker"})
	if err != nil {
		t.Fatal(err)
	}
	ready := func(status metav1.ConditionStatus) *corev1ac.ServiceApplyConfiguration {
		condition := metav1ac.Condition().WithType("Ready").WithStatus(status).WithReason("Made").WithMessage("it is made").
			WithLastTransitionTime(metav1.NewTime(time.Unix(1764230400, 0)))
		return corev1ac.Service("web", "default").WithStatus(corev1ac.ServiceStatus().WithConditions(condition))
	}
	reported := ready(metav1.ConditionTrue)
	got, err := client.ApplyStatus(t.Context(), reported, metav1.ApplyOptions{FieldManager: "reporter"})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Status.Conditions) != 1 || len(got.Spec.Ports) != 1 || got.UID != made.UID {
		t.Errorf("%v", got)
	}
	again, err := client.ApplyStatus(t.Context(), reported, metav1.ApplyOptions{FieldManager: "reporter"})
	if err != nil || again.ResourceVersion != got.ResourceVersion {
		t.Errorf("the same again: %v %v", again, err)
	}
	i.expectOwners(services+"/web", `maker/Apply/ {"f:spec":{"f:ports":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:port":{}}}}}`,
		`reporter/Apply/status {"f:status":{"f:conditions":{"k:{\"type\":\"Ready\"}":{".":{},"f:lastTransitionTime":{},"f:message":{},"f:reason":{},"f:status":{},"f:type":{}}}}}`)
	extracted, err := corev1ac.ExtractService(got, "maker")
	if err != nil || len(extracted.Spec.Ports) != 1 || extracted.Status != nil {
		t.Errorf("extracted %v, %v", extracted, err)
	}
	if _, err := client.ApplyStatus(t.Context(), ready(metav1.ConditionFalse), metav1.ApplyOptions{FieldManager: "other"}); !apierrors.IsConflict(err) {
		t.Errorf("another value by another manager: %v", err)
	}
	empty := corev1ac.Service("web", "default").WithStatus(corev1ac.ServiceStatus())
	if got, err = client.ApplyStatus(t.Context(), empty, metav1.ApplyOptions{FieldManager: "reporter"}); err != nil || len(got.Status.Conditions) != 0 {
		t.Errorf("a status without the condition: %v %v", got, err)
	}
	patch := []byte(`{"status":{"conditions":[{"type":"Patched","status":"True","reason":"a","message":"b","lastTransitionTime":"2026-11-26T00:00:00Z"}]}}`)
	if _, err := client.Patch(t.Context(), "web", types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "patcher"}, "status"); err != nil {
		t.Fatal(err)
	}
	if got := i.get(services + "/web").owners(t); !strings.HasPrefix(got[1], `patcher/Update/status {"f:status":{"f:conditions":{".":{},"k:{\"type\":\"Patched\"}":{".":{},`) {
		t.Errorf("owners %q", got)
	}
}

// TestKubectlServerSide applies with kubectl.
func TestKubectlServerSide(t *testing.T) {
	eachKubectl(t, func(k *kubectl, newer bool) {
		changed := strings.Replace(web, "8080", "9090", 1)
		k.commands(newer,
			command{args: "apply --server-side -f -", input: web, has: "service/web serverside-applied"},
			command{args: "apply --server-side -f -", input: strings.Replace(web, "targetPort", "targetport", 1), has: "targetport", fails: true},
			command{args: "apply --server-side --field-manager=other -f -", input: web, has: "service/web serverside-applied"},
			command{args: "apply --server-side --field-manager=other --force-conflicts -f -", input: changed, has: "service/web serverside-applied"},
			command{args: "get service web -o jsonpath={.spec.ports[0].targetPort}", has: "9090"},
			command{args: "get service web -o jsonpath={.metadata.managedFields[*].manager}", has: "other"},
			command{args: "get service web -o json --show-managed-fields", has: `"manager": "other"`, newer: true},
			command{args: "apply --server-side -f -", input: web, has: "conflict with \"other\"", fails: true},
			command{args: "apply --server-side -f -", input: web, has: "--force-conflicts", fails: true},
			command{args: "diff --server-side --field-manager=other -f -", input: changed},
			command{args: "diff --server-side --field-manager=other --force-conflicts -f -", input: web, has: "+    targetPort: 8080", fails: true},
		)
	})
}
