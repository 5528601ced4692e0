package attacks

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/portolan/e2e/labtest"
	"portolan.dev/services/kinds"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/object"
)

// asRegistrar returns a connection to the registry with the certificate of a registrar.
func asRegistrar(t *testing.T, i *labtest.Installation, who string) *grpc.ClientConn {
	t.Helper()
	return i.DialAs(i.Issue(who, time.Hour), identity.Registry, i.RegistryAt())
}

// attempts calls each attempt, which must be refused.
func attempts(t *testing.T, who string, all map[string]func() error) {
	t.Helper()
	for what, attempt := range all {
		if err := attempt(); status.Code(err) != codes.PermissionDenied {
			t.Errorf("%s: %s: %v", who, what, err)
		}
	}
}

// TestRegistrarsCertificateWritesItsOwnPodsOnly writes pods with the certificates of registrars of all
// namespaces and of one.
func TestRegistrarsCertificateWritesItsOwnPodsOnly(t *testing.T) {
	i := install(t)
	newNamespaces(t, i.Conn)
	const all, bound = "registrar/n1", "registrar/n1/a"
	if err := create(t, i.Conn, newPod("operators", "a", "n1", "")); err != nil {
		t.Fatal(err)
	}
	for who, other := range map[string]string{all: bound, bound: all} {
		conn := asRegistrar(t, i, who)
		pods := registryv1.NewPodServiceClient(conn)
		mine := "mine-" + strings.ReplaceAll(who, "/", "-")
		if err := create(t, conn, newPod(mine, "a", "n1", who)); err != nil {
			t.Fatalf("%s: its own pod: %v", who, err)
		}
		update := func(pod *corev1.Pod) func() error {
			return func() error {
				_, err := pods.UpdatePod(t.Context(), &registryv1.UpdatePodRequest{Pod: pod})
				return err
			}
		}
		report := func(pod *corev1.Pod) error {
			pod.Status = &corev1.PodStatus{PodIp: i.Nodes[0].Addresses[0].String()}
			_, err := pods.UpdatePodStatus(t.Context(), &registryv1.UpdatePodStatusRequest{Pod: pod})
			return err
		}
		attempts(t, who, map[string]func() error{
			"a pod of another node":             func() error { return create(t, conn, newPod("x", "a", "n2", who)) },
			"a pod of nobody":                   func() error { return create(t, conn, newPod("x", "a", "n1", "")) },
			"a pod of another registrar":        func() error { return create(t, conn, newPod("x", "a", "n1", other)) },
			"a pod of a workload":               func() error { return create(t, conn, newPod("x", "a", "n1", "workload/n1")) },
			"the operator's pod as its own":     update(newPod("operators", "a", "n1", who)),
			"its pod as that of the other":      update(newPod(mine, "a", "n1", other)),
			"the address of the operator's pod": func() error { return report(newPod("operators", "a", "n1", who)) },
			"the deletion of the operator's pod": func() error {
				_, err := pods.DeletePod(t.Context(), &registryv1.DeletePodRequest{Namespace: "a", Name: "operators"})
				return err
			},
			"its pod and others in a call of many": func() error { return writeInBulk(t, conn, newPod("x", "a", "n1", who)) },
		})
		foreign := newPod(mine, "a", "n1", who)
		foreign.Status = &corev1.PodStatus{PodIp: i.Nodes[1].Addresses[0].String()}
		if _, err := pods.UpdatePodStatus(t.Context(), &registryv1.UpdatePodStatusRequest{Pod: foreign}); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: the address of another node: %v", who, err)
		}
		if err := report(newPod(mine, "a", "n1", who)); err != nil {
			t.Errorf("%s: the address of its node: %v", who, err)
		}
	}
	attempts(t, bound, map[string]func() error{
		"a pod of another namespace": func() error { return create(t, asRegistrar(t, i, bound), newPod("x", "b", "n1", bound)) },
	})
	if err := create(t, asRegistrar(t, i, all), newPod("x", "b", "n1", all)); err != nil {
		t.Errorf("a pod of another namespace, as %s: %v", all, err)
	}
}

// writeInBulk creates a pod by a call that is for many writes.
func writeInBulk(t *testing.T, conn grpc.ClientConnInterface, pod *corev1.Pod) error {
	t.Helper()
	_, err := registryv1.NewBulkServiceClient(conn).Write(t.Context(), &registryv1.WriteRequest{
		Operations: []*registryv1.WriteOperation{{Write: &registryv1.WriteOperation_Create{Create: object.Wrap(pod)}}},
	})
	return err
}

// TestRegistrarsServicesStayInside creates services and namespaces with the certificates of registrars,
// and tries to change and delete those that are there.
func TestRegistrarsServicesStayInside(t *testing.T) {
	i := install(t)
	newNamespaces(t, i.Conn)
	const all, bound = "registrar/n1", "registrar/n1/a"
	for _, who := range []string{all, bound} {
		conn := asRegistrar(t, i, who)
		services := registryv1.NewServiceServiceClient(conn)
		serve := func(namespace string, change func(*corev1.Service)) func() error {
			return func() error {
				svc := &corev1.Service{
					Metadata: &corev1.ObjectMeta{GenerateName: "s-", Namespace: namespace, Annotations: map[string]string{object.AnnotationWorkload: who}},
					Spec:     &corev1.ServiceSpec{Ports: []*corev1.ServicePort{{Port: 80}}, Selector: map[string]string{object.LabelService: "s"}},
				}
				change(svc)
				_, err := services.CreateService(t.Context(), &registryv1.CreateServiceRequest{Service: svc})
				return err
			}
		}
		web, err := registryv1.NewServiceServiceClient(i.Conn).GetService(t.Context(), &registryv1.GetServiceRequest{Namespace: "a", Name: "web"})
		if err != nil {
			t.Fatal(err)
		}
		if err := serve("a", func(*corev1.Service) {})(); err != nil {
			t.Errorf("%s: a service that only the cluster reaches: %v", who, err)
		}
		attempts(t, who, map[string]func() error{
			"a load balancer": serve("a", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER }),
			"node ports":      serve("a", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceType_SERVICE_TYPE_NODE_PORT }),
			"a node port":     serve("a", func(s *corev1.Service) { s.Spec.Ports[0].NodePort = 30080 }),
			"a name elsewhere": serve("a", func(s *corev1.Service) {
				s.Spec.Type, s.Spec.ExternalName = corev1.ServiceType_SERVICE_TYPE_EXTERNAL_NAME, "evil.example"
			}),
			"an external IP":          serve("a", func(s *corev1.Service) { s.Spec.ExternalIps = []string{"198.51.100.1"} }),
			"a chosen virtual IP":     serve("a", func(s *corev1.Service) { s.Spec.ClusterIp = "10.96.0.99" }),
			"a class by a field":      serve("a", func(s *corev1.Service) { s.Spec.LoadBalancerClass = new(string) }),
			"a pool by an annotation": serve("a", func(s *corev1.Service) { s.Metadata.Annotations[object.AnnotationBalancerPool] = "public" }),
			"the name of another one": serve("a", func(s *corev1.Service) { s.Metadata.Annotations[object.AnnotationWorkload] = "registrar/n2" }),
			"no name":                 serve("a", func(s *corev1.Service) { s.Metadata.Annotations = nil }),
			"a service that stays":    serve("a", func(s *corev1.Service) { s.Metadata.Finalizers = []string{"example.com/never"} }),
			"an update": func() error {
				_, err := services.UpdateService(t.Context(), &registryv1.UpdateServiceRequest{Service: web.GetService()})
				return err
			},
			"a status": func() error {
				_, err := services.UpdateServiceStatus(t.Context(), &registryv1.UpdateServiceStatusRequest{Service: web.GetService()})
				return err
			},
			"a deletion": func() error {
				_, err := services.DeleteService(t.Context(), &registryv1.DeleteServiceRequest{Namespace: "a", Name: "web"})
				return err
			},
			"an apply": func() error {
				_, err := registryv1.NewApplyServiceClient(conn).Apply(t.Context(), &registryv1.ApplyRequest{Object: object.Wrap(web.GetService())})
				return err
			},
		})
		if who == bound {
			attempts(t, who, map[string]func() error{"a service of another namespace": serve("b", func(*corev1.Service) {})})
		}
		createNamespaces(t, conn, who)
	}
}

// createNamespaces creates namespaces with the certificate of a registrar, and tries to change them. A
// registrar that is bound to a namespace may create none.
func createNamespaces(t *testing.T, conn grpc.ClientConnInterface, who string) {
	t.Helper()
	namespaces := registryv1.NewNamespaceServiceClient(conn)
	try := func(change func(*corev1.Namespace)) error {
		made := &corev1.Namespace{Metadata: &corev1.ObjectMeta{Name: "made", Annotations: map[string]string{object.AnnotationWorkload: who}}}
		change(made)
		_, err := namespaces.CreateNamespace(t.Context(), &registryv1.CreateNamespaceRequest{Namespace: made})
		return err
	}
	plain := func() error { return try(func(*corev1.Namespace) {}) }
	if who == "registrar/n1" {
		if err := plain(); err != nil {
			t.Errorf("%s: a namespace: %v", who, err)
		}
	} else {
		attempts(t, who, map[string]func() error{"a namespace": plain})
	}
	attempts(t, who, map[string]func() error{
		"a namespace with labels": func() error {
			return try(func(n *corev1.Namespace) { n.Metadata.Labels = map[string]string{"team": "a"} })
		},
		"a namespace of nobody": func() error { return try(func(n *corev1.Namespace) { n.Metadata.Annotations = nil }) },
		"a namespace's update": func() error {
			_, err := namespaces.UpdateNamespace(t.Context(), &registryv1.UpdateNamespaceRequest{Namespace: &corev1.Namespace{Metadata: &corev1.ObjectMeta{Name: "a"}}})
			return err
		},
		"a namespace's deletion": func() error {
			_, err := namespaces.DeleteNamespace(t.Context(), &registryv1.DeleteNamespaceRequest{Name: "a"})
			return err
		},
	})
}

// TestRegistrarReadsAndWritesNothingElse reads everything that the registry offers with the certificates
// of registrars, writes objects of all kinds, and publishes on NATS.
func TestRegistrarReadsAndWritesNothingElse(t *testing.T) {
	i := install(t)
	newNamespaces(t, i.Conn)
	newSecrets(t, i)
	if err := create(t, i.Conn, newSecretPod("theirs", "n2")); err != nil {
		t.Fatal(err)
	}
	for who, namespaces := range map[string][]string{"registrar/n1": nil, "registrar/n1/a": {"a"}} {
		conn := asRegistrar(t, i, who)
		if err := create(t, conn, newPod("mine", "a", "n1", who)); err != nil {
			t.Fatal(err)
		}
		for where, objects := range map[string][]object.Object{"the snapshot": snapshotObjects(t, conn), "the log": changesOf(t, conn)} {
			checkSight(t, who+", "+where, objects, namespaces)
		}
		readsNoSecret(t, conn)
		seesOnly(t, registryv1.NewPodServiceClient(conn), "mine")
		for _, o := range objectsOf("a") {
			kind, _ := kinds.Named(object.KindOf(o))
			for verb, writes := range verbs(kind) {
				fields := map[string]string{"namespace": "a", "name": o.GetMetadata().GetName()}
				if err := call(t, conn, kind, verb, o, fields); writes && status.Code(err) != codes.PermissionDenied {
					t.Errorf("%s: %s of a %s: %v", who, verb, kind.Name, err)
				}
			}
		}
		event := func(component, instance string) error {
			_, err := registryv1.NewEventServiceClient(conn).CreateEvent(t.Context(), &registryv1.CreateEventRequest{Event: &corev1.Event{
				Metadata: &corev1.ObjectMeta{GenerateName: "web-", Namespace: "a"}, Regarding: &corev1.ObjectReference{Kind: "Service", Namespace: "a", Name: "web"},
				Reason: "Test", Type: corev1.EventType_EVENT_TYPE_NORMAL, ReportingComponent: component, ReportingInstance: instance,
			}})
			return err
		}
		if err := event("registrar", "n1"); err != nil {
			t.Errorf("%s: an Event in its own name: %v", who, err)
		}
		attempts(t, who, map[string]func() error{
			"an Event of another registrar": func() error { return event("registrar", "n2") },
			"an Event of the agent":         func() error { return event("nodeagent", "n1") },
		})
		if _, err := registryv1.NewPodServiceClient(conn).DeletePod(t.Context(), &registryv1.DeletePodRequest{Namespace: "a", Name: "mine"}); err != nil {
			t.Fatal(err)
		}
	}
	publishNothing(t, i)
}

// checkSight checks the objects that a registrar of n1 reads. namespaces are the namespaces that it is
// bound to; empty: it is not bound.
func checkSight(t *testing.T, where string, objects []object.Object, namespaces []string) {
	t.Helper()
	seen := map[string]int{}
	for _, o := range objects {
		kind, meta := object.KindOf(o), o.GetMetadata()
		seen[kind]++
		namespace := meta.GetNamespace()
		switch o := o.(type) {
		case *corev1.Pod:
			if meta.GetName() != "mine" {
				t.Errorf("%s has the pod %s", where, meta.GetName())
			}
		case *corev1.Node:
			if meta.GetName() != "n1" {
				t.Errorf("%s has the Node %s", where, meta.GetName())
			}
		case *corev1.Namespace:
			namespace = meta.GetName()
		case *corev1.Service, *corev1.Revocation:
		default:
			t.Errorf("%s has a %s", where, object.KindOf(o))
		}
		if len(namespaces) > 0 && namespace != "" && !slices.Contains(namespaces, namespace) {
			t.Errorf("%s has the %s %s of namespace %s", where, kind, meta.GetName(), namespace)
		}
	}
	for _, kind := range []string{"Pod", "Service", "Namespace", "Node", "Revocation"} {
		if seen[kind] == 0 {
			t.Errorf("%s has no %s", where, kind)
		}
	}
}

// publishNothing connects to NATS with a registrar's certificate. It receives changes, and the server
// refuses every message that it publishes.
func publishNothing(t *testing.T, i *labtest.Installation) {
	t.Helper()
	nc, err := nats.Connect(i.NATS(), nats.Secure(i.Source(i.Issue("registrar/n1", time.Hour)).TLS(identity.NATS)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	for _, subject := range []string{"portolan.hb.n1", "portolan.chg.Service.a.web", "portolan.rep.chg.Service.a.web", "portolan.rep.head", "$JS.API.STREAM.DELETE.portolan_CHG"} {
		if err := nc.Publish(subject, []byte("x")); err != nil {
			t.Fatal(err)
		}
		if err := nc.FlushTimeout(time.Minute); err != nil {
			t.Fatal(err)
		}
		if err := nc.LastError(); err == nil || !strings.Contains(err.Error(), "Permissions Violation for Publish to \""+subject+"\"") {
			t.Errorf("publishing %s: %v", subject, err)
		}
	}
}
