package kubeapi

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// command is a command of kubectl with a text that its output must have.
type command struct {
	args  string // separated by blanks
	has   string
	input string
	fails bool
	newer bool // the older kubectl does not have it
}

// commands runs commands one after the other.
func (k *kubectl) commands(newer bool, all ...command) {
	k.Helper()
	for _, c := range all {
		if c.newer && !newer {
			continue
		}
		out, err := k.try(c.input, strings.Fields(c.args)...)
		if (err != nil) != c.fails || !strings.Contains(out, c.has) {
			k.Errorf("kubectl %s: %v, and no %q in\n%s", c.args, err, c.has, out)
		}
	}
}

// eachKubectl runs a test with both versions of kubectl, each in an installation of its own.
func eachKubectl(t *testing.T, test func(k *kubectl, newer bool)) {
	t.Helper()
	t.Run("distributed", func(t *testing.T) { test(kubectlOf(install(t, true), "operator", distributed(t)), false) })
	t.Run("newest", func(t *testing.T) { test(kubectlOf(install(t, true), "operator", newest(t)), true) })
}

const (
	nodeManifest = `{"apiVersion":"v1","kind":"Node","metadata":{"name":"n1"}}`
	podManifest  = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-1","labels":{"app":"web"}},
		"spec":{"nodeName":"n1","containers":[{"name":"c","image":"x","ports":[{"name":"http","containerPort":8080}]}]}}`
	sliceManifest = `{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{"name":"web-x","labels":{"kubernetes.io/service-name":"web"}},
		"addressType":"IPv4","ports":[{"name":"http","port":8080}],"endpoints":[{"addresses":["10.1.0.1"],"conditions":{"ready":true},"nodeName":"n1"}]}`
	eventManifest = `{"apiVersion":"v1","kind":"Event","metadata":{"name":"web.1","namespace":"default"},"reason":"Tested","message":"it was tested","type":"Normal",
		"involvedObject":{"apiVersion":"v1","kind":"Service","namespace":"default","name":"web","uid":"UID"},"source":{"component":"test"},"count":1}`
)

// TestKubectlReads runs the commands that read.
func TestKubectlReads(t *testing.T) {
	eachKubectl(t, func(k *kubectl, newer bool) {
		k.commands(newer,
			command{args: "apply -f -", input: nodeManifest, has: "node/n1 created"},
			command{args: "apply -f -", input: podManifest, has: "pod/web-1 created"},
			command{args: "apply -f -", input: web, has: "service/web created"},
			command{args: "apply -f -", input: sliceManifest, has: "endpointslice.discovery.k8s.io/web-x created"},
		)
		event := strings.ReplaceAll(eventManifest, "UID", k.run("", "get", "service", "web", "-o", "jsonpath={.metadata.uid}"))
		k.commands(newer,
			command{args: "create -f -", input: event, has: "event/web.1 created"},
			command{args: "version", has: "v1.37.2+portolan"},
			command{args: "cluster-info", has: k.url},
			command{args: "api-versions", has: "discovery.k8s.io/v1"},
			command{args: "api-resources", has: "discovery.k8s.io/v1"},
			command{args: "api-resources --verbs=create --namespaced=false -o name", has: "namespaces\nnodes\n"},
			command{args: "get --raw /readyz", has: "ok"},
			command{args: "get --raw /openapi/v3/api/v1", has: `"x-kubernetes-action":"patch"`},
			command{args: "get namespaces", has: "Active"},
			command{args: "get all -A", has: "pod/web-1"},
			command{args: "get services -o wide --show-labels", has: "app=web"},
			command{args: "get svc/web pod/web-1", has: "service/web"},
			command{args: "get svc web -o yaml", has: "clusterIP: 10.96."},
			command{args: "get svc web -o jsonpath={.spec.ports[0].targetPort}", has: "8080"},
			command{args: "get svc web -o go-template={{.spec.type}}", has: "ClusterIP"},
			command{args: "get svc -o custom-columns=NAME:.metadata.name,PORT:.spec.ports[0].port", has: "web    80"},
			command{args: "get svc --sort-by=.metadata.name -l app=web --field-selector spec.type=ClusterIP --chunk-size=1", has: "web"},
			command{args: "get svc -l app!=web", has: "No resources found"},
			command{args: "get svc,eps,ep,po,no,ns,cm,deploy,netpol -A", has: "endpointslice.discovery.k8s.io/web-x"},
			command{args: "get svc web --watch --request-timeout=1s", has: "web"},
			command{args: "get svc nothing", has: "(NotFound)", fails: true},
			command{args: "get nothing", has: "the server doesn't have a resource type", fails: true},
			command{args: "get svc --field-selector nothing=x", has: "nothing", fails: true},
			command{args: "describe service web", has: "it was tested"},
			command{args: "describe service web", has: "10.1.0.1:8080", newer: true},
			command{args: "describe endpointslice web-x", has: "10.1.0.1", newer: true}, // the older asks for v1beta1
			command{args: "describe pod web-1", has: "8080/TCP"},
			command{args: "describe node n1", has: "web-1"},
			command{args: "describe namespace default", has: "No resource quota."},
			command{args: "explain service.spec.ports", has: "The list of ports that are exposed by this service"},
			command{args: "explain endpointslices.endpoints.conditions.ready", has: "ready to receive traffic"},
			command{args: "explain deployments", has: "Portolan"},
			command{args: "explain service --recursive", has: "sessionAffinityConfig"},
			command{args: "explain service.spec.nothing", has: "does not exist", fails: true},
			command{args: "get events", has: "it was tested"},
			command{args: "get events --field-selector involvedObject.name=web,source=test", has: "it was tested"},
			command{args: "get events.v1.events.k8s.io", has: "it was tested"},
			command{args: "events", has: "it was tested", newer: true},
			command{args: "events --for service/web --types Normal", has: "it was tested", newer: true},
		)
	})
}

// TestKubectlWrites runs the commands that write.
func TestKubectlWrites(t *testing.T) {
	editor := filepath.Join(t.TempDir(), "editor")
	if err := os.WriteFile(editor, []byte("#!/bin/sh\nsed -i 's/port: 80$/port: 81/' \"$1\"\n"), 0o700); err != nil { // #nosec G306 -- it is run
		t.Fatal(err)
	}
	t.Setenv("KUBE_EDITOR", editor)
	folder := t.TempDir()
	for name, text := range map[string]string{"web.yaml": web, "kustomization.yaml": "resources: [web.yaml]\nnameSuffix: -k\n"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	eachKubectl(t, func(k *kubectl, newer bool) {
		misspelt := strings.Replace(web, "targetPort", "targetport", 1)
		moved := strings.Replace(web, `"port":80,`, `"port":82,`, 1)
		k.commands(newer,
			command{args: "apply -f -", input: misspelt, has: "unknown field", fails: true},
			command{args: "create -f -", input: misspelt, has: "unknown field", fails: true},
			command{args: "apply -f -", input: web, has: "service/web created"},
			command{args: "apply -f -", input: web, has: "service/web unchanged"},
			command{args: "diff -f -", input: web},
			command{args: "diff -f -", input: moved, has: "+    port: 82", fails: true},
			command{args: "apply --dry-run=server -f -", input: moved, has: "service/web configured (server dry run)"},
			command{args: "get service web -o jsonpath={.spec.ports[*].port}", has: "80"},
			command{args: "apply -f -", input: moved, has: "service/web configured"},
			command{args: "get service web -o jsonpath=:{.spec.ports[*].port}:", has: ":82:"},
			command{args: "apply -f -", input: strings.Replace(web, `"labels":{"app":"web"},`, "", 1), has: "service/web configured"},
			command{args: "get service web -o jsonpath=:{.metadata.labels}:", has: "::"},
			command{args: "edit service web", has: "service/web edited"},
			command{args: "get service web -o jsonpath=:{.spec.ports[*].port}:", has: ":81:"},
			command{args: "apply view-last-applied service web", has: "port: 80"},
			command{args: "label service web app=web x=y", has: "labeled"},
			command{args: "label service web x=z", has: "--overwrite is false", fails: true},
			command{args: "label --overwrite service web x=z", has: "labeled"},
			command{args: "label services --all x-", has: "service/web"},
			command{args: "annotate service web x=y", has: "annotated"},
			command{args: "annotate service web x=z --overwrite --dry-run=server", has: "annotated (server dry run)"},
			command{args: "annotate service web x=z --overwrite --resource-version=1", has: "(Conflict)", fails: true},
			command{args: `patch service web -p {"spec":{"type":"NodePort"}}`, has: "patched"},
			command{args: `patch service web -p {"spec":{"type":"NodePort"}}`, has: "patched (no change)"},
			command{args: `patch service web --type=merge -p {"metadata":{"labels":{"m":"1"}}}`, has: "patched"},
			command{args: `patch service web --type=json -p [{"op":"remove","path":"/metadata/labels/m"}]`, has: "patched"},
			command{args: "get service web --show-labels", has: "app=web\n"},
			command{args: "set selector service web app=other", has: "selector updated"},
			command{args: "replace -f -", input: web, has: "service/web replaced"},
			command{args: "replace --force -f -", input: web, has: "service/web replaced"},
			command{args: "apply -k " + folder, has: "service/web-k created"},
			command{args: "delete -k " + folder, has: "deleted"},
			command{args: "create -f -", input: web, has: "(AlreadyExists)", fails: true},
			command{args: "create namespace shop", has: "namespace/shop created"},
			command{args: "create service clusterip a --tcp=80:8080", has: "service/a created"},
			command{args: "create service nodeport b --tcp=80:8080 -n shop", has: "service/b created"},
			command{args: "create service clusterip dry --tcp=1:1 --dry-run=server", has: "created (server dry run)"},
			command{args: "create configmap x", has: "Portolan has no configmaps", fails: true},
			command{args: "apply -f -", input: nodeManifest, has: "node/n1 created"},
			command{args: "apply -f -", input: podManifest, has: "pod/web-1 created"},
			command{args: "expose pod web-1 --port=80 --name=exposed", has: "service/exposed exposed"},
			command{args: "cordon n1", has: "cordoned"},
			command{args: "taint node n1 a=b:NoSchedule", has: "tainted"},
			command{args: "delete service a --dry-run=server", has: "(server dry run)"},
			command{args: "delete service a --cascade=orphan", has: "Unsupported value", fails: true},
			command{args: "delete service a --wait --timeout=60s", has: "deleted"},
			command{args: "delete pod web-1 --now", has: "deleted"},
			command{args: "delete namespace shop --timeout=60s", has: "deleted"},
			command{args: "get service b -n shop", has: "(NotFound)", fails: true},
			command{args: "apply -f -", input: strings.Replace(web, `"name":"web"`, `"name":"kept"`, 1), has: "service/kept created"},
			command{args: "apply -f -", input: web, has: "service/web configured"},                                                                                  // kubectl prunes objects that it has applied
			command{args: "apply --prune -l app=web -f -", input: strings.Replace(web, `"name":"web"`, `"name":"kept"`, 1), has: "service/web pruned", newer: true}, // as above
			command{args: "delete services -l app=web --wait --timeout=60s", has: "deleted"},
			command{args: "get services", has: "No resources found"},
		)
	})
}

// TestKubectlWaits runs the commands that wait for a change.
func TestKubectlWaits(t *testing.T) {
	eachKubectl(t, func(k *kubectl, newer bool) {
		k.commands(newer,
			command{args: "apply -f -", input: podManifest, has: "created"},
			command{args: "wait --for=condition=Ready pod/web-1 --timeout=1s", has: "timed out", fails: true},
			command{args: "wait --for=jsonpath={.status.phase}=Pending pod/web-1 --timeout=60s", has: "condition met", newer: true},
		)
		seen := k.until([]string{"get", "pods", "--watch"}, "Running")
		waited := k.until([]string{"wait", "--for=condition=Ready", "pod/web-1", "--timeout=60s"}, "condition met")
		if a := k.send(http.MethodPatch, "/api/v1/namespaces/default/pods/web-1/status",
			`{"status":{"phase":"Running","podIP":"10.1.0.1","conditions":[{"type":"Ready","status":"True"}]}}`, "Content-Type", "application/merge-patch+json"); a.code != http.StatusOK {
			k.Fatalf("%d: %s", a.code, a.body)
		}
		seen()
		waited()
		gone := k.until([]string{"wait", "--for=delete", "pod/web-1", "--timeout=60s"}, "")
		k.run("", "delete", "pod", "web-1", "--now", "--wait=false")
		gone()
	})
}

// until starts a command that follows changes. The function that it returns waits until the command has
// printed a text, or has ended without an error if the text is empty.
func (k *kubectl) until(args []string, text string) func() {
	k.Helper()
	ctx, cancel := context.WithCancel(k.Context())
	command := k.command(ctx, args...)
	out, err := command.StdoutPipe()
	if err != nil {
		k.Fatal(err)
	}
	if err := command.Start(); err != nil {
		k.Fatal(err)
	}
	return func() {
		k.Helper()
		defer cancel()
		var printed strings.Builder
		for buffer := make([]byte, 1<<10); text == "" || !strings.Contains(printed.String(), text); {
			n, err := out.Read(buffer)
			printed.Write(buffer[:n])
			if err != nil {
				break
			}
		}
		if text != "" {
			cancel()
		}
		if err := command.Wait(); text == "" && err != nil || !strings.Contains(printed.String(), text) {
			k.Errorf("kubectl %s: %v, and no %q in\n%s", strings.Join(args, " "), err, text, printed.String())
		}
	}
}
