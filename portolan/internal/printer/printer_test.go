package printer

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	allocatorv1 "portolan.dev/api/allocator/v1"
	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/portolan/internal/balancer"
	"portolan.dev/services/kinds"
	"portolan.dev/services/object"
)

var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func meta(name string, age time.Duration) *corev1.ObjectMeta {
	return &corev1.ObjectMeta{Name: name, Namespace: "default", CreationTimestamp: timestamppb.New(now.Add(-age))}
}

// public are the pools of announced, a service with an address that the node n1 announces.
var (
	public    = balancer.NewPools([]*allocatorv1.Pool{{Name: "public", Use: allocatorv1.Use_USE_LOAD_BALANCER_IP, Range: "203.0.113.0/24"}})
	announced = &corev1.Service{
		Metadata: &corev1.ObjectMeta{Name: "lb", CreationTimestamp: timestamppb.New(now.Add(-time.Hour)), Annotations: map[string]string{object.AnnotationBalancerProvider: "portolan.dev/pool"}},
		Spec:     &corev1.ServiceSpec{Type: corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER},
		Status: &corev1.ServiceStatus{
			LoadBalancer: &corev1.LoadBalancerStatus{Ingress: []*corev1.LoadBalancerIngress{{Ip: "203.0.113.7", IpMode: corev1.IPMode_IP_MODE_VIP}}},
			Conditions: []*corev1.Condition{
				{Type: object.ConditionLoadBalancer, Status: corev1.ConditionStatus_CONDITION_STATUS_TRUE, Reason: "Ensured"},
				{
					Type: object.ConditionAnnounced, Status: corev1.ConditionStatus_CONDITION_STATUS_TRUE, Reason: "Announced",
					Message: "node n1 announces 203.0.113.7", LastTransitionTime: timestamppb.New(now.Add(-5 * time.Minute)),
				},
			},
		},
	}
)

// TestLoadBalancersAreDescribed checks that a description has sentences about the load balancer.
func TestLoadBalancersAreDescribed(t *testing.T) {
	var b strings.Builder
	if err := Describe(&b, announced, Related{Now: now, Pools: public}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Load balancer:", "203.0.113.7 comes from the pool public of the provider portolan.dev/pool, and the nodes serve it.",
		"Node n1 announces 203.0.113.7 (since 5m0s).",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("lacks %q:\n%s", want, b.String())
		}
	}
}

func TestTables(t *testing.T) {
	ready := []*corev1.Condition{{Type: "Ready", Status: corev1.ConditionStatus_CONDITION_STATUS_TRUE}}
	for name, c := range map[string]struct {
		options Options
		o       object.Object
		want    string
	}{
		"service": {Options{}, &corev1.Service{Metadata: meta("web", time.Minute), Spec: &corev1.ServiceSpec{
			Type: corev1.ServiceType_SERVICE_TYPE_NODE_PORT, ClusterIp: "10.96.0.1", ClusterIps: []string{"10.96.0.1"},
			Ports: []*corev1.ServicePort{{Port: 80, NodePort: 30080, Protocol: corev1.Protocol_PROTOCOL_TCP}},
		}}, "NAME  TYPE      CLUSTER-IP  EXTERNAL-IP  PORT(S)       AGE\nweb   NodePort  10.96.0.1   <none>       80:30080/TCP  60s\n"},
		"external name, wide, with namespace": {Options{Wide: true, WithNamespace: true}, &corev1.Service{Metadata: meta("db", time.Hour), Spec: &corev1.ServiceSpec{
			Type: corev1.ServiceType_SERVICE_TYPE_EXTERNAL_NAME, ExternalName: "db.example.com", Selector: map[string]string{"b": "2", "a": "1"},
		}}, "NAMESPACE  NAME  TYPE          CLUSTER-IP  EXTERNAL-IP     PORT(S)  AGE  SELECTOR  LB-PROVIDER  LB-POOL  ANNOUNCED-BY  LB-STATE\ndefault    db    ExternalName  <none>      db.example.com  <none>   60m  a=1,b=2  <none>  <none>  <none>  <none>\n"},
		"load balancer, wide": {Options{Wide: true, NoHeader: true, Pools: public}, announced, "lb  LoadBalancer  <none>  203.0.113.7  <none>  60m  <none>  portolan.dev/pool  public  n1 (5m0s)  Ensured\n"},
		"load balancer":       {Options{}, announced, "NAME  TYPE  CLUSTER-IP  EXTERNAL-IP  PORT(S)  AGE\nlb  LoadBalancer  <none>  203.0.113.7  <none>  60m\n"},
		"load balancer without address": {Options{NoHeader: true}, &corev1.Service{Metadata: meta("lb", time.Second), Spec: &corev1.ServiceSpec{
			Type: corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER, ClusterIp: "10.96.0.2",
		}}, "lb  LoadBalancer  10.96.0.2  <pending>  <none>  1s\n"},
		"terminating pod": {Options{}, &corev1.Pod{
			Metadata: &corev1.ObjectMeta{Name: "p", CreationTimestamp: timestamppb.New(now), DeletionTimestamp: timestamppb.New(now)},
			Status:   &corev1.PodStatus{Phase: corev1.PodPhase_POD_PHASE_RUNNING, Conditions: ready},
		}, "NAME  READY  STATUS       AGE\np     True   Terminating  0s\n"},
		"node nobody has heard of": {Options{NoHeader: true}, &corev1.Node{Metadata: meta("n", 72*time.Hour)}, "n  Unknown  <none>  3d0h\n"},
		"revocation": {Options{}, &corev1.Revocation{Metadata: &corev1.ObjectMeta{Name: "r", CreationTimestamp: timestamppb.New(now)}, Spec: &corev1.RevocationSpec{
			Identity: "nodeagent/n1", IssuedBefore: timestamppb.New(now), Expires: timestamppb.New(now.Add(time.Hour)), Reason: "stolen",
		}}, "NAME  DENIES  ISSUED UNTIL  FORGOTTEN  AGE  REASON\nr  nodeagent/n1  2026-11-22T12:00:00Z  2026-11-22T13:00:00Z  0s  stolen\n"},
		"token": {Options{}, &corev1.Token{Metadata: meta("ci", time.Minute), Spec: &corev1.TokenSpec{
			Identity: "viewer/shop", Sha256: []byte("the hash"), Expires: timestamppb.New(now.Add(time.Hour)), CreatedBy: "operator",
		}}, "NAME  IDENTITY  EXPIRES  CREATED-BY  AGE\nci  viewer/shop  2026-11-22T13:00:00Z  operator  60s\n"},
		"revocation of one": {Options{NoHeader: true}, &corev1.Revocation{Metadata: meta("r", time.Second), Spec: &corev1.RevocationSpec{
			Serial: "a1", Expires: timestamppb.New(now),
		}}, "r  serial a1  <none>  2026-11-22T12:00:00Z  1s  <none>\n"},
		"slice of many": {Options{NoHeader: true}, &corev1.EndpointSlice{
			Metadata: meta("s", time.Second), AddressType: corev1.AddressType_ADDRESS_TYPE_IPV4,
			Ports:     []*corev1.EndpointPort{{Port: ptr(int32(80))}, {}},
			Endpoints: []*corev1.Endpoint{{Addresses: []string{"10.0.0.1"}}, {Addresses: []string{"10.0.0.2"}}, {Addresses: []string{"10.0.0.3"}}, {Addresses: []string{"10.0.0.4"}}},
		}, "s  IPv4  80,*  10.0.0.1,10.0.0.2,10.0.0.3 + 1 more...  1s\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			kind, _ := kinds.Named(object.KindOf(c.o))
			c.options.Now = now
			table := NewTable(&b, kind, c.options)
			table.Row(c.o)
			if err := table.Flush(); err != nil {
				t.Fatal(err)
			}
			if got := squeeze(b.String()); got != squeeze(c.want) {
				t.Errorf("got\n%s\nwant\n%s", b.String(), c.want)
			}
		})
	}
}

// TestEveryKindIsPrinted checks that an empty object of every kind can be printed and described.
func TestEveryKindIsPrinted(t *testing.T) {
	for _, kind := range kinds.All {
		var b strings.Builder
		table := NewTable(&b, kind, Options{Now: now, Wide: true, WithNamespace: true})
		table.Row(kind.New())
		if err := table.Flush(); err != nil || strings.Count(b.String(), "\n") != 2 {
			t.Errorf("%s: %v:\n%s", kind.Name, err, b.String())
		}
		if err := Describe(&strings.Builder{}, kind.New(), Related{Now: now}); err != nil {
			t.Errorf("an empty %s cannot be described: %v", kind.Name, err)
		}
	}
}

// TestLayoutOfAKindWithoutOne checks the default columns.
func TestLayoutOfAKindWithoutOne(t *testing.T) {
	layout := layoutOf("Widget")
	if len(layout.columns) != 2 || layout.columns[0].title != "NAME" || layout.columns[1].title != "AGE" {
		t.Errorf("columns: %v", layout.columns)
	}
	layout.describe(description{}, &corev1.Lease{}, Related{})
}

func TestAge(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 119 * time.Second: "119s", 2 * time.Minute: "2m0s", 9*time.Minute + 59*time.Second: "9m59s", 10 * time.Minute: "10m",
		3 * time.Hour: "3h0m", 8 * time.Hour: "8h", 48 * time.Hour: "2d0h", 8 * 24 * time.Hour: "8d", -time.Hour: "0s",
	} {
		if got := Age(now.Add(-d), now); got != want {
			t.Errorf("Age(%s) = %q, want %q", d, got, want)
		}
	}
	if got := Age(time.Time{}, now); got != "<unknown>" {
		t.Errorf("no time: %q", got)
	}
}

func TestDescribeService(t *testing.T) {
	service := &corev1.Service{Metadata: meta("web", time.Minute), Spec: &corev1.ServiceSpec{
		ClusterIp: "10.96.0.1", Type: corev1.ServiceType_SERVICE_TYPE_CLUSTER_IP,
		Ports: []*corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.Protocol_PROTOCOL_TCP, TargetPort: &corev1.IntOrString{Value: &corev1.IntOrString_Name{Name: "web"}}}},
	}}
	slice := &corev1.EndpointSlice{
		Ports: []*corev1.EndpointPort{{Name: ptr("http"), Port: ptr(int32(8080)), Protocol: corev1.Protocol_PROTOCOL_TCP}},
		Endpoints: []*corev1.Endpoint{
			{Addresses: []string{"10.1.0.1"}},
			{Addresses: []string{"10.1.0.2"}, Conditions: &corev1.EndpointConditions{Ready: ptr(false)}},
		},
	}
	event := &corev1.Event{Reason: "FailedToListen", Message: "port 80 is in use", Count: 3, ReportingComponent: "nodeagent", LastTimestamp: timestamppb.New(now), Type: corev1.EventType_EVENT_TYPE_WARNING}
	var b strings.Builder
	if err := Describe(&b, service, Related{Slices: []*corev1.EndpointSlice{slice}, Events: []*corev1.Event{event}, Now: now}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"http  80/TCP -> web", "10.1.0.1:8080", "FailedToListen (3x, nodeagent)  port 80 is in use"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), "10.1.0.2") {
		t.Errorf("an endpoint that is not ready is listed:\n%s", b.String())
	}
}

// squeeze separates columns by one space, so that tests do not depend on their width.
func squeeze(s string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		lines[i] = strings.Join(strings.Fields(line), " ")
	}
	return strings.Join(lines, "\n")
}

func ptr[T any](v T) *T { return &v }

func TestDescribeSaysWhyALoadBalancerIsPending(t *testing.T) {
	svc := &corev1.Service{Metadata: &corev1.ObjectMeta{Name: "lb"}, Spec: &corev1.ServiceSpec{Type: corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER}}
	var b strings.Builder
	if err := Describe(&b, svc, Related{}); err != nil || !strings.Contains(b.String(), "It has no external address yet: lbctl, which gives such services their addresses, has not looked at it yet") {
		t.Errorf("%v:\n%s", err, b.String())
	}
	svc.Status = &corev1.ServiceStatus{Conditions: []*corev1.Condition{
		{Type: object.ConditionLoadBalancer, Status: corev1.ConditionStatus_CONDITION_STATUS_FALSE, Reason: "NoAddress", Message: "no pool has an address left"},
	}}
	b.Reset()
	if err := Describe(&b, svc, Related{}); err != nil || !strings.Contains(b.String(), "It has no external address yet: no pool has an address left.") {
		t.Errorf("%v:\n%s", err, b.String())
	}
}
