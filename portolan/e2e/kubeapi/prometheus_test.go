package kubeapi

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"portolan.dev/services/kit/kittest"
)

// example is a service with a ready and another backend.
var example = []struct{ path, body string }{
	{"/api/v1/nodes", `{"metadata":{"name":"n1"},"status":{"addresses":[{"type":"InternalIP","address":"192.0.2.1"}]}}`},
	{"/api/v1/namespaces/default/pods", `{"metadata":{"name":"web-0","labels":{"app":"web"}},"spec":{"nodeName":"n1","containers":[{"name":"main","ports":[{"name":"http","containerPort":8080}]}]}}`},
	{services, web},
	{"/api/v1/namespaces/default/endpoints", `{"metadata":{"name":"web"},"subsets":[{"addresses":[{"ip":"10.64.0.1","targetRef":{"kind":"Pod","namespace":"default","name":"web-0"}}],
		"ports":[{"name":"http","port":8080}]}]}`},
	{"/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", `{"metadata":{"name":"web-1","labels":{"kubernetes.io/service-name":"web"}},
		"addressType":"IPv4","endpoints":[{"addresses":["10.64.0.1"],"conditions":{"ready":true},"targetRef":{"kind":"Pod","namespace":"default","name":"web-0"}}],"ports":[{"name":"http","port":8080}]}`},
}

// TestPrometheus has the discovery of Prometheus find the example by each of its roles, and follow a
// change of a backend.
func TestPrometheus(t *testing.T) {
	path := buildClient(t, "kubeclients/discovery")
	i := install(t, true)
	for _, o := range example {
		i.must("POST", o.path, o.body)
	}
	i.must("PATCH", "/api/v1/nodes/n1/status", `{"status":{"addresses":[{"type":"InternalIP","address":"192.0.2.1"}]}}`)
	i.must("PATCH", "/api/v1/namespaces/default/pods/web-0/status", `{"status":{"phase":"Running","podIP":"10.64.0.1","podIPs":[{"ip":"10.64.0.1"}],"conditions":[{"type":"Ready","status":"True"}]}}`)
	files := i.certs.Issue("viewer", lifetime)
	config := configFile(t, "prometheus.yml", "https://kubeapi.example:7405", i.url, "/etc/portolan/tls/ca.crt", files.CA,
		"/etc/portolan/tls/viewer.crt", files.Cert, "/etc/portolan/tls/viewer.key", files.Key)
	d := discover(t, path, config)

	d.finds(map[string][]string{
		"services":       {"web.default.svc:80 service_name=web service_port_name=http service_label_app=web service_type=ClusterIP"},
		"endpoints":      {"10.64.0.1:8080 service_name=web endpoints_name=web endpoint_port_name=http endpoint_ready=true pod_name=web-0 pod_container_name=main"},
		"endpointslices": {"10.64.0.1:8080 service_name=web endpointslice_name=web-1 endpointslice_port_name=http endpointslice_endpoint_conditions_ready=true pod_name=web-0"},
		"pods":           {"10.64.0.1:8080 pod_name=web-0 pod_ready=true pod_node_name=n1 pod_container_port_name=http pod_label_app=web"},
		"nodes":          {"192.0.2.1:0 node_name=n1 node_address_InternalIP=192.0.2.1"},
	})
	i.must("PATCH", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/web-1", `{"endpoints":[{"addresses":["10.64.0.2"],"conditions":{"ready":false}}]}`)
	i.must("PATCH", "/api/v1/namespaces/default/endpoints/web", `{"subsets":[{"notReadyAddresses":[{"ip":"10.64.0.2"}],"ports":[{"name":"http","port":8080}]}]}`)
	i.must("DELETE", "/api/v1/namespaces/default/pods/web-0?gracePeriodSeconds=0", "")
	d.finds(map[string][]string{
		"services":       {"web.default.svc:80"},
		"endpoints":      {"10.64.0.2:8080 endpoint_ready=false"},
		"endpointslices": {"10.64.0.2:8080 endpointslice_endpoint_conditions_ready=false"},
		"pods":           {},
		"nodes":          {"192.0.2.1:0"},
	})
}

// discoverer is the discovery of Prometheus.
type discoverer struct {
	*testing.T
	mu    sync.Mutex
	found map[string][]map[string]string // the labels of the targets of each job
}

// discover starts the discovery.
func discover(t *testing.T, program, config string) *discoverer {
	t.Helper()
	d := &discoverer{T: t}
	startReading(t, exec.Command(program, config), func(line []byte) {
		found := map[string][]map[string]string{}
		if err := json.Unmarshal(line, &found); err != nil {
			t.Errorf("%v: %s", err, line)
		}
		for job := range found {
			slices.SortFunc(found[job], func(a, b map[string]string) int { return strings.Compare(a["__address__"], b["__address__"]) })
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.found = found
	})
	return d
}

// finds waits until exactly these targets of each job are found. A target is described by its address and
// by labels, without the prefix __meta_kubernetes_ of their names.
func (d *discoverer) finds(want map[string][]string) {
	d.Helper()
	kittest.Eventually(d, "the targets", func() error {
		d.mu.Lock()
		defer d.mu.Unlock()
		for job, targets := range want {
			if !slices.EqualFunc(targets, d.found[job], describes) {
				return fmt.Errorf("the targets of %s are not\n%s\nbut\n%v", job, strings.Join(targets, "\n"), d.found[job])
			}
		}
		return nil
	})
}

// describes reports whether a target has the address and labels of a description.
func describes(description string, labels map[string]string) bool {
	address, rest, _ := strings.Cut(description, " ")
	if labels["__address__"] != address {
		return false
	}
	for label := range strings.FieldsSeq(rest) {
		name, value, _ := strings.Cut(label, "=")
		if labels["__meta_kubernetes_"+name] != value {
			return false
		}
	}
	return true
}
