package quota

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/registry/internal/view"
	"portolan.dev/registry/store"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/obs"
	"portolan.dev/services/object"
)

func TestQuotaText(t *testing.T) {
	for text, want := range map[string]string{
		"shop:pods=3": "", "*:services.nodeports=0": "", "shop:endpoints=1": "",
		"pods=3": "want NAMESPACE:RESOURCE=NUMBER", "shop:pods": "want NAMESPACE", ":pods=1": "want NAMESPACE",
		"shop:nodes=1": "is none of the resources", "shop:pods=x": "is not a number", "shop:pods=-1": "is not a number",
	} {
		var q NamespaceQuota
		err := q.UnmarshalText([]byte(text))
		switch back, _ := q.MarshalText(); {
		case want == "" && (err != nil || string(back) != text):
			t.Errorf("%s: became %s, %v", text, back, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	twice := []NamespaceQuota{{"a", "pods", 1}, {"b", "pods", 1}, {"a", "pods", 2}}
	if err := CheckQuotas(twice); err == nil || !strings.Contains(err.Error(), "a:pods is limited twice") {
		t.Errorf("two limits: %v", err)
	}
	if err := CheckQuotas(twice[:2]); err != nil {
		t.Error(err)
	}
}

func service(kind corev1.ServiceType, ports int) *corev1.Service {
	return &corev1.Service{
		Metadata: &corev1.ObjectMeta{Name: "web", Namespace: "shop"},
		Spec:     &corev1.ServiceSpec{Type: kind, Ports: make([]*corev1.ServicePort, ports)},
	}
}

const (
	plain    = corev1.ServiceType_SERVICE_TYPE_CLUSTER_IP
	onNodes  = corev1.ServiceType_SERVICE_TYPE_NODE_PORT
	balanced = corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER
)

// TestCharges checks the amounts that writes add to accounts and give back.
func TestCharges(t *testing.T) {
	l := NewLedger([]NamespaceQuota{
		{"shop", "services", 9}, {"shop", "services.nodeports", 8}, {"*", "services.loadbalancers", 7}, {"other", "services", 6},
	}, OwnerLimits{Pods: 5, Services: 4}, obs.NewMetrics())
	without := service(balanced, 2)
	without.Spec.AllocateLoadBalancerNodePorts = new(bool)
	pod := &corev1.Pod{Metadata: &corev1.ObjectMeta{Namespace: "shop", Annotations: map[string]string{object.AnnotationWorkload: "workload/n1"}}}
	made := service(plain, 2)
	made.Metadata.Annotations = map[string]string{object.AnnotationWorkload: "registrar/n1"}
	for _, test := range []struct {
		what         string
		updated, old object.Object
		want         string
	}{
		{"a new service", service(plain, 2), nil, "services+1/9"},
		{"a new load balancer", service(balanced, 2), nil, "services+1/9 services.nodeports+2/8 services.loadbalancers+1/7"},
		{"one without node ports", without, nil, "services+1/9 services.loadbalancers+1/7"},
		{"a service that becomes a load balancer", service(balanced, 2), service(onNodes, 1), "services.nodeports+1/8 services.loadbalancers+1/7"},
		{"an update of nothing limited", service(plain, 3), service(plain, 2), ""},
		{"a deletion", nil, service(onNodes, 3), "services-1/9 services.nodeports-3/8"},
		{"a workload's pod", pod, nil, "pods+1/5"},
		{"a registrar's service", made, nil, "services+1/9 services+1/4"},
		{"a registrar's service that an operator takes over", service(plain, 2), made, "services-1/4"},
		{"a registrar's namespace", &corev1.Namespace{Metadata: made.Metadata}, nil, "namespaces+1/4"},
		{"an operator's namespace", &corev1.Namespace{Metadata: &corev1.ObjectMeta{Name: "shop"}}, nil, ""},
		{"an operator's pod", &corev1.Pod{Metadata: &corev1.ObjectMeta{Namespace: "shop"}}, nil, ""},
		{"a node", &corev1.Node{Metadata: &corev1.ObjectMeta{Name: "n1"}}, nil, ""},
	} {
		var got []string
		for _, c := range l.Charges(test.updated, test.old) {
			got = append(got, fmt.Sprintf("%s%+d/%d", c.Account.Resource, c.Amount, c.Limit))
		}
		if text := strings.Join(got, " "); text != test.want {
			t.Errorf("%s: %q, want %q", test.what, text, test.want)
		}
	}
}

// record returns a record of the log with a service of the given type, or its deletion.
func record(t *testing.T, revision uint64, name string, kind corev1.ServiceType, change registryv1.ChangeType) store.Record {
	t.Helper()
	svc := service(kind, 1)
	svc.Metadata.Name = name
	data, err := store.Encode(svc)
	if err != nil {
		t.Fatal(err)
	}
	return store.Record{Revision: revision, Type: change, Key: object.KeyOf(svc), Data: data}
}

// TestUsageAddsTheLogToTheView counts a state of the view at revision 5 and changes after it.
func TestUsageAddsTheLogToTheView(t *testing.T) {
	const put, removal = registryv1.ChangeType_CHANGE_TYPE_PUT, registryv1.ChangeType_CHANGE_TYPE_DELETE
	metrics := obs.NewMetrics()
	l := NewLedger([]NamespaceQuota{{"shop", "services", 9}, {"shop", "services.loadbalancers", 9}, {"idle", "pods", 4}}, OwnerLimits{Pods: 5}, metrics)
	seen := record(t, 5, "seen", balanced, put)
	change, err := view.Decode(seen)
	if err != nil {
		t.Fatal(err)
	}
	l.Observe(view.StateAt(5), []*view.Change{change})
	services := store.Account{Owner: "namespace shop", Resource: "services"}
	balancers := store.Account{Owner: "namespace shop", Resource: "services.loadbalancers"}
	log := []store.Record{
		record(t, 6, "a", balanced, put), record(t, 7, "b", plain, put), record(t, 8, "a", plain, put),
		record(t, 9, "c", balanced, put), record(t, 10, "b", plain, removal),
	}
	for head, want := range map[uint64][2]int{5: {1, 1}, 6: {2, 2}, 7: {3, 2}, 8: {3, 1}, 9: {4, 2}, 10: {3, 2}} {
		used, err := l.Usage(store.Head{Revision: head}, []store.Account{services, balancers}, func(after uint64) ([]store.Record, error) {
			if after != 5 {
				t.Errorf("the changes after %d are read", after)
			}
			return log[:head-5], nil
		})
		if err != nil || used[services] != want[0] || used[balancers] != want[1] {
			t.Errorf("at %d: %v, %v; want %v", head, used, err, want)
		}
	}
	for what, test := range map[string]struct {
		head    store.Head
		records []store.Record
	}{
		"another epoch": {store.Head{Revision: 6, Epoch: "other"}, log[:1]}, "a log that was set back": {store.Head{Revision: 4}, nil},
		"a log that was pruned": {store.Head{Revision: 8}, nil}, "a log that is too long": {store.Head{Revision: 10}, log[:3]},
	} {
		_, err := l.Usage(test.head, []store.Account{services}, func(uint64) ([]store.Record, error) { return test.records, nil })
		if !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%s: %v", what, err)
		}
	}
	const want = `
# HELP portolan_registry_quota_used Use of a limited resource, by namespace and resource.
# TYPE portolan_registry_quota_used gauge
portolan_registry_quota_used{namespace="idle",resource="pods"} 0
portolan_registry_quota_used{namespace="shop",resource="services"} 1
portolan_registry_quota_used{namespace="shop",resource="services.loadbalancers"} 1
`
	if err := testutil.GatherAndCompare(metrics, strings.NewReader(want), "portolan_registry_quota_used"); err != nil {
		t.Error(err)
	}
}

// TestUsageOfAnObjectThatIsMadeAgain deletes an object of the view's state in the log, and creates it again. If the
// ledger forgot the deletion, it would subtract the object of the view a second time at the creation, and the
// namespace could have one object more than its quota.
func TestUsageOfAnObjectThatIsMadeAgain(t *testing.T) {
	const put, removal = registryv1.ChangeType_CHANGE_TYPE_PUT, registryv1.ChangeType_CHANGE_TYPE_DELETE
	l := NewLedger([]NamespaceQuota{{"shop", "services", 9}, {"shop", "services.loadbalancers", 9}}, OwnerLimits{}, obs.NewMetrics())
	var removals []*view.Change
	for n, name := range []string{"a", "b"} {
		made, err := view.Decode(record(t, uint64(n+1), name, balanced, put))
		if err != nil {
			t.Fatal(err)
		}
		removals = append(removals, &view.Change{Old: made.New, Last: made.New})
	}
	state := view.StateAt(4).Before(2, "Service", removals) // it has the two services
	l.Reset(state)
	services := store.Account{Owner: "namespace shop", Resource: "services"}
	balancers := store.Account{Owner: "namespace shop", Resource: "services.loadbalancers"}
	log := []store.Record{
		record(t, 3, "a", balanced, removal), record(t, 4, "a", balanced, put), record(t, 5, "a", plain, put),
		record(t, 6, "a", plain, removal), record(t, 7, "b", balanced, removal), record(t, 8, "b", plain, put),
	}
	for head, want := range map[uint64][2]int{2: {2, 2}, 3: {1, 1}, 4: {2, 2}, 5: {2, 1}, 6: {1, 1}, 7: {0, 0}, 8: {1, 0}} {
		used, err := l.Usage(store.Head{Epoch: state.Epoch(), Revision: head}, []store.Account{services, balancers}, func(after uint64) ([]store.Record, error) {
			return log[:head-after], nil
		})
		if err != nil || used[services] != want[0] || used[balancers] != want[1] {
			t.Errorf("at %d: %v, %v; want %v", head, used, err, want)
		}
	}
}

// TestWorkloadsHaveARate checks that a workload has its own, lower rate, and that a registrar, which writes
// for all containers of a node, has the rate of an agent.
func TestWorkloadsHaveARate(t *testing.T) {
	rates, _ := start()
	for _, one := range []struct {
		role  identity.Role
		limit string
		want  int
	}{
		{identity.Workload, "workload-write-rate allows 2 writes per second", 40},
		{identity.Registrar, "agent-write-rate allows 10 writes per second", 200},
	} {
		id := agent("n1")
		id.Role = one.role
		if n := admitted(t, rates, id, 10, one.limit); n != one.want {
			t.Errorf("%s: %d small writes at once, want %d, those of 20 s", one.role, n, one.want)
		}
	}
}

// TestRegistrarsHaveALimitOfPods checks that the pods of a registrar have a limit of their own.
func TestRegistrarsHaveALimitOfPods(t *testing.T) {
	l := newAccountLimits(nil, OwnerLimits{Pods: 5, RegistrarPods: 7})
	for owner, want := range map[string]struct {
		limit int
		flag  string
	}{"workload/n1/default": {5, flagWorkloadPods}, "registrar/n1": {7, flagRegistrarPods}, "registrar/n1/shop": {7, flagRegistrarPods}} {
		pod := &corev1.Pod{Metadata: &corev1.ObjectMeta{Name: "p", Namespace: "default", Annotations: map[string]string{object.AnnotationWorkload: owner}}}
		l.charge(pod, func(account store.Account, _, limit int) {
			if limit != want.limit || l.flag(account) != want.flag {
				t.Errorf("%s: %d by %s, want %d by %s", owner, limit, l.flag(account), want.limit, want.flag)
			}
		})
	}
}

// BenchmarkCharges measures the time that the ledger adds to the creation of a service, without limits and
// with limits in all namespaces.
func BenchmarkCharges(b *testing.B) {
	for name, quotas := range map[string][]NamespaceQuota{
		"unlimited": nil,
		"limited":   {{"*", "services", 1000}, {"*", "services.nodeports", 1000}, {"*", "services.loadbalancers", 1000}},
	} {
		b.Run(name, func(b *testing.B) {
			l, svc := NewLedger(quotas, OwnerLimits{Pods: 10}, obs.NewMetrics()), service(balanced, 2)
			b.ReportAllocs()
			for b.Loop() {
				if err := l.Check(l.Charges(svc, nil)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
