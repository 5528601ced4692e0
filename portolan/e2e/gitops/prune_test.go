package gitops

import (
	"strings"
	"testing"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/applyset"
	"portolan.dev/services/object"
)

// TestPrune checks which objects apply --prune deletes, and that a dry run and diff name the same ones.
func TestPrune(t *testing.T) {
	i := install(t)
	const set = "app=shop"
	prune := []string{"-f", "-", "--prune", "-l", set}
	i.must(namespace("shop", "shop")+namespace("elsewhere", "x"), "apply", "-f", "-")
	i.must(service("shop", "web", "shop")+service("shop", "old", "shop")+service("default", "here", "shop")+service("elsewhere", "far", "shop")+
		service("shop", "other", "blog")+"---\napiVersion: v1\nkind: Node\nmetadata: {name: n1, labels: {app: shop}}\n"+
		"---\napiVersion: v1\nkind: Endpoints\nmetadata: {name: old, namespace: shop, labels: {app: shop}}\nsubsets: [{addresses: [{ip: 192.0.2.7}], ports: [{port: 80}]}]\n", "apply", "-f", "-")
	// An object that others have created is never pruned, even if it has the labels.
	if _, err := registryv1.NewServiceServiceClient(i.conn).CreateService(t.Context(), &registryv1.CreateServiceRequest{Service: &corev1.Service{
		Metadata: &corev1.ObjectMeta{Name: "foreign", Namespace: "shop", Labels: map[string]string{"app": "shop"}},
		Spec:     &corev1.ServiceSpec{Ports: []*corev1.ServicePort{{Port: 80}}},
	}}); err != nil {
		t.Fatal(err)
	}

	now := namespace("shop", "shop") + service("shop", "web", "shop") + service("shop", "new", "shop")
	dry := i.must(now, append([]string{"apply", "--dry-run"}, prune...)...)
	if want := "endpoints/old pruned (dry run)\nservice/old pruned (dry run)\n"; !strings.HasSuffix(dry, want) {
		t.Errorf("a dry run prints\n%s", dry)
	}
	i.expect("service/shop/old", "endpoints/shop/old", "!service/shop/new")
	shown, errOut, code := i.portolan(now, append([]string{"diff"}, prune...)...)
	if code != 1 || !strings.Contains(shown, "--- service/shop/old (stored)") || !strings.Contains(shown, "-kind: Service") || strings.Contains(shown, "foreign") || strings.Contains(shown, "far") {
		t.Errorf("diff ends with %d:\n%s%s", code, shown, errOut)
	}

	if out := i.must(now, append([]string{"apply"}, prune...)...); out != "namespace/shop unchanged\nservice/web unchanged\nservice/new created\nendpoints/old pruned\nservice/old pruned\n" &&
		out != "namespace/shop unchanged\nservice/new created\nservice/web unchanged\nendpoints/old pruned\nservice/old pruned\n" {
		t.Errorf("apply prints\n%s", out)
	}
	i.expect("service/shop/web", "service/shop/new", "!service/shop/old", "!endpoints/shop/old",
		"service/shop/foreign", "service/shop/other", "service/elsewhere/far", "service/here", "node/n1")
	if shown, errOut, code := i.portolan(now, append([]string{"diff"}, prune...)...); code != 0 || shown != "" {
		t.Errorf("diff of what was applied ends with %d:\n%s%s", code, shown, errOut)
	}
	if out := i.must(now, append([]string{"apply", "-n", "default"}, prune...)...); !strings.HasSuffix(out, "service/here pruned\n") {
		t.Errorf("with -n, apply prints\n%s", out)
	}
	i.expect("!service/here", "service/elsewhere/far")

	// The last manifest of a namespace takes the namespace along.
	if out := i.must(service("default", "here", "shop"), append([]string{"apply"}, prune...)...); !strings.HasSuffix(out, "namespace/shop pruned\n") {
		t.Errorf("without the namespace, apply prints\n%s", out)
	}
	i.await("!namespace/shop", "!service/shop/foreign")
}

// TestNothingIsPruned checks the refusals. None of them changes an object.
func TestNothingIsPruned(t *testing.T) {
	i := install(t)
	i.must(service("default", "old", "shop"), "apply", "-f", "-")
	broken := strings.Replace(service("default", "broken", "shop"), "port: 80", "port: 0", 1)
	for _, c := range []struct {
		name, in string
		args     []string
		code     int
		want     []string // in the error
	}{
		{"no selector", service("default", "web", "shop"), []string{"--prune"}, 2, []string{"--prune needs the labels"}},
		{"empty selector", service("default", "web", "shop"), []string{"--prune", "-l", " "}, 1, []string{"needs a label selector"}},
		{"no selector at all", service("default", "web", "shop"), []string{"--prune", "-l", "app in"}, 1, []string{"app in"}},
		{"selector only", service("default", "web", "shop"), []string{"-l", "app=shop"}, 2, []string{"add --prune"}},
		{"other labels", service("default", "web", "shop") + service("default", "api", "blog") + service("default", "db", ""), []string{"--prune", "-l", "app=shop"}, 1,
			[]string{"Service default/api does not match the selector app=shop", "Service default/db does not match"}},
		{"twice", service("default", "web", "shop") + service("default", "web", "shop"), []string{"--prune", "-l", "app=shop"}, 1, []string{"Service default/web is in the manifests twice"}},
		{"one is refused", service("default", "fine", "shop") + broken, []string{"--prune", "-l", "app=shop"}, 1, []string{"service/broken", "spec.ports[0].port"}},
		{"one has no namespace", service("default", "fine", "shop") + service("none", "web", "shop"), []string{"--prune", "-l", "app=shop"}, 1, []string{"service/web"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, errOut, code := i.portolan(c.in, append([]string{"apply", "-f", "-"}, c.args...)...)
			if code != c.code || strings.Contains(out, "pruned") {
				t.Errorf("it ends with %d:\n%s%s", code, out, errOut)
			}
			for _, want := range c.want {
				if !strings.Contains(errOut, want) {
					t.Errorf("the error lacks %q:\n%s", want, errOut)
				}
			}
		})
	}
	i.expect("service/old", "!service/web", "!service/api", "service/fine")
}

// TestAChangedObjectIsPrunedByItsNewVersion changes objects between the decision to prune them and their
// deletion.
func TestAChangedObjectIsPrunedByItsNewVersion(t *testing.T) {
	i := install(t)
	i.must(service("default", "a", "shop")+service("default", "b", "shop")+service("default", "c", "shop")+service("default", "d", "shop"), "apply", "-f", "-")
	set, err := applyset.NewSet(nil, applyset.SetOptions{Selector: "app=shop", Namespace: "default"})
	if err != nil {
		t.Fatal(err)
	}
	stale, err := set.Stale(t.Context(), i.Client)
	if err != nil || len(stale) != 4 {
		t.Fatalf("stale: %v, %v", stale, err)
	}
	i.must(strings.Replace(service("default", "a", "shop"), "port: 80", "port: 81", 1), "apply", "-f", "-") // changed, still of the set
	i.must(strings.Replace(service("default", "b", "shop"), "labels: {app: shop}", "labels: {app: blog}", 1), "apply", "-f", "-")
	i.must("", "delete", "service", "c")
	i.must("", "delete", "service", "d")
	if _, err := registryv1.NewServiceServiceClient(i.conn).CreateService(t.Context(), &registryv1.CreateServiceRequest{Service: &corev1.Service{
		Metadata: &corev1.ObjectMeta{Name: "d", Labels: map[string]string{"app": "shop"}}, Spec: &corev1.ServiceSpec{Ports: []*corev1.ServicePort{{Port: 80}}},
	}}); err != nil {
		t.Fatal(err)
	}

	var results []string
	run := &applyset.Run{Registry: i.Client, Report: func(r applyset.Result) {
		results = append(results, object.KeyOf(r.Object).Name+" "+string(r.Action))
		if r.Err != nil {
			t.Errorf("%s: %v", object.KeyOf(r.Object), r.Err)
		}
	}}
	run.Prune(t.Context(), set, stale)
	if len(results) != 1 || results[0] != "a pruned" {
		t.Errorf("results %q", results)
	}
	i.expect("!service/a", "service/b", "!service/c", "service/d")
}
