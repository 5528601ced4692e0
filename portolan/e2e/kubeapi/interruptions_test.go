package kubeapi

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/features"
	featurestesting "k8s.io/client-go/features/testing"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"portolan.dev/kubeapi"
	"portolan.dev/services/kit/kittest"
)

const (
	// resync is the time after which an informer tells an object again.
	resync = 2 * time.Second
	// shortHistory is the history of kubeapi, which has at most twice as many changes.
	shortHistory = 5
)

// TestInformersThroughInterruptions interrupts the watches of informers in every way, with an old and with
// the newest client-go. After each interruption every client must have the objects of the registry.
func TestInformersThroughInterruptions(t *testing.T) {
	i := install(t, true, func(c *kubeapi.Config) { c.History = shortHistory })
	for _, o := range everything {
		i.must("POST", o.path, o.body)
	}
	relay := newRelay(t, i.address, nil)
	views := i.startClients("https://" + relay.addr)
	follow := func(when string) {
		t.Helper()
		for name, v := range views {
			kittest.Eventually(t, name+" "+when, func() error { return v.is(i.contents()) })
		}
	}
	follow("at first")
	i.change("seen", 1)
	follow("after changes")

	relay.cut()
	i.change("missed", 1)
	relay.join(i.address)
	follow("after a reconnect")
	if n := i.count("code", "410"); n != 0 {
		t.Errorf("%v watches did not continue where they were", n)
	}

	relay.cut()
	i.change("lost", 2*shortHistory)
	relay.join(i.address)
	follow("after more changes than the history has")
	if i.count("code", "410") == 0 {
		t.Error("no watch got 410")
	}

	relay.cut()
	i.stopKubeAPI()
	i.startKubeAPI()
	i.change("unseen", 1)
	relay.join(i.address)
	follow("after kubeapi began anew")
	for name, v := range views {
		kittest.Eventually(t, name+": notices of objects that do not change", v.wasRepeated)
	}
	follow("at last")
}

// startClients starts the clients, waits until each has its first view, and returns the views by the
// names of the clients.
func (i *installation) startClients(url string) map[string]*view {
	i.Helper()
	kubeconfig := i.kubeconfig("viewer", url)
	views := map[string]*view{}
	for _, c := range []struct {
		name      string
		start     func(t *testing.T, kubeconfig string, v *view)
		watchList bool
	}{{"client-go 0.29", oldClient, false}, {"client-go without WatchList", newestClient, false}, {"client-go", newestClient, true}} {
		featurestesting.SetFeatureDuringTest(i.T, features.WatchListClient, c.watchList)
		v, lists := newView(), i.count("verb", "list")
		c.start(i.T, kubeconfig, v)
		kittest.Eventually(i, c.name+": the first view", v.complete)
		if listed := i.count("verb", "list") > lists; listed == c.watchList {
			i.Errorf("%s: lists: %v", c.name, listed)
		}
		views[c.name] = v
	}
	return views
}

// everything has an object of each kind.
var everything = []struct{ path, body string }{
	{"/api/v1/namespaces", `{"metadata":{"name":"shop"}}`},
	{"/api/v1/nodes", `{"metadata":{"name":"n1"}}`},
	{"/api/v1/namespaces/shop/pods", `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c"}]}}`},
	{services, service("web", "x")},
	{"/api/v1/namespaces/default/endpoints", `{"metadata":{"name":"web"},"subsets":[{"addresses":[{"ip":"10.64.0.1"}],"ports":[{"port":80}]}]}`},
	{"/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", `{"metadata":{"name":"web-1","labels":{"kubernetes.io/service-name":"web"}},
		"addressType":"IPv4","endpoints":[{"addresses":["10.64.0.1"]}],"ports":[{"port":80}]}`},
	{"/apis/coordination.k8s.io/v1/namespaces/default/leases", `{"metadata":{"name":"l"},"spec":{"holderIdentity":"x","leaseDurationSeconds":15}}`},
	{"/api/v1/namespaces/default/events", `{"metadata":{"name":"e"},"involvedObject":{"kind":"Service","namespace":"default","name":"web"},"reason":"Seen","type":"Normal"}`},
}

// change creates a service, changes another one some times, creates and deletes a third one, and changes
// a node.
func (i *installation) change(name string, times int) {
	i.Helper()
	i.must("POST", services, service(name, "x"))
	i.must("POST", services, service("gone", "x"))
	for n := range times {
		i.must("PATCH", services+"/web", fmt.Sprintf(`{"metadata":{"labels":{%q:"%d"}}}`, name, n))
	}
	i.must("DELETE", services+"/gone", "")
	i.must("PATCH", "/api/v1/nodes/n1", fmt.Sprintf(`{"metadata":{"labels":{%q:"x"}}}`, name))
}

// count returns the number of requests to kubeapi with a label in the metrics.
func (i *installation) count(label, value string) (n float64) {
	i.Helper()
	families, err := i.metrics["kubeapi"].Gather()
	if err != nil {
		i.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "portolan_kubeapi_requests_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			for _, l := range metric.GetLabel() {
				if l.GetName() == label && l.GetValue() == value {
					n += metric.GetCounter().GetValue()
				}
			}
		}
	}
	return n
}

// oldClient runs tools/oldclient.
func oldClient(t *testing.T, kubeconfig string, v *view) {
	t.Helper()
	command := exec.Command(buildClient(t, "oldclient"), "-kubeconfig", kubeconfig, "-resync", resync.String())
	startReading(t, command, func(line []byte) {
		var n notice
		if err := json.Unmarshal(line, &n); err != nil {
			n.Type = fmt.Sprintf("%q: %v", line, err)
		}
		v.tell(n)
	})
}

// newestClient runs the client-go that the tests are linked with.
func newestClient(t *testing.T, kubeconfig string, v *view) {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	factory := informers.NewSharedInformerFactory(client, resync)
	var synced []cache.InformerSynced
	for resource, informer := range map[string]cache.SharedIndexInformer{
		"namespaces": factory.Core().V1().Namespaces().Informer(), "nodes": factory.Core().V1().Nodes().Informer(),
		"pods": factory.Core().V1().Pods().Informer(), "services": factory.Core().V1().Services().Informer(),
		"endpoints": factory.Core().V1().Endpoints().Informer(), "events": factory.Core().V1().Events().Informer(), //nolint:staticcheck // Endpoints have clients
		"endpointslices": factory.Discovery().V1().EndpointSlices().Informer(), "leases": factory.Coordination().V1().Leases().Informer(),
		"networkpolicies": factory.Networking().V1().NetworkPolicies().Informer(),
	} {
		registration, err := informer.AddEventHandler(handler(resource, v))
		if err != nil {
			t.Fatal(err)
		}
		synced = append(synced, registration.HasSynced)
	}
	stop := make(chan struct{})
	t.Cleanup(func() {
		close(stop)
		factory.Shutdown()
	})
	factory.Start(stop)
	go func() {
		if cache.WaitForCacheSync(stop, synced...) {
			v.tell(notice{Type: "SYNCED"})
		}
	}()
}

// handler passes the notices of an informer to v.
func handler(resource string, v *view) cache.ResourceEventHandler {
	about := func(eventType string, object any) {
		if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = last.Obj
		}
		n := notice{Type: eventType, Resource: resource}
		if accessor, err := meta.Accessor(object); err == nil {
			n.Key, n.Version = cache.MetaObjectToName(accessor).String(), accessor.GetResourceVersion()
		}
		v.tell(n)
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { about("ADDED", object) },
		UpdateFunc: func(_, object any) { about("UPDATED", object) },
		DeleteFunc: func(object any) { about("DELETED", object) },
	}
}
