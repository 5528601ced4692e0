package registry_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/kinds"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
)

// operation returns the operation of a bulk call that corresponds to the method of a verb. An empty verb
// applies the object.
func operation(verb kinds.Verb, o object.Object) *registryv1.WriteOperation {
	switch verb {
	case kinds.Create:
		return &registryv1.WriteOperation{Write: &registryv1.WriteOperation_Create{Create: object.Wrap(o)}}
	case kinds.Update:
		return &registryv1.WriteOperation{Write: &registryv1.WriteOperation_Update{Update: object.Wrap(o)}}
	case kinds.UpdateStatus:
		return &registryv1.WriteOperation{Write: &registryv1.WriteOperation_UpdateStatus{UpdateStatus: object.Wrap(o)}}
	case kinds.Delete:
		meta := o.GetMetadata()
		return &registryv1.WriteOperation{Write: &registryv1.WriteOperation_Delete{Delete: &registryv1.DeleteOperation{
			Kind: object.KindOf(o), Namespace: meta.GetNamespace(), Name: meta.GetName(), Uid: meta.GetUid(), ResourceVersion: meta.GetResourceVersion(),
		}}}
	}
	return &registryv1.WriteOperation{Write: &registryv1.WriteOperation_Apply{Apply: object.Wrap(o)}}
}

// single makes the same write by the method of the verb.
func single(t *testing.T, conn *grpc.ClientConn, verb kinds.Verb, o object.Object, dryRun bool) (object.Object, error) {
	t.Helper()
	if verb == "" {
		answer, err := registryv1.NewApplyServiceClient(conn).Apply(within(t), &registryv1.ApplyRequest{Object: object.Wrap(o), DryRun: dryRun})
		return object.Unwrap(answer.GetObject()), err
	}
	c := newCaller(t, conn, kinds.Of(o))
	set := map[protoreflect.Name]any{}
	method := string(verb)
	if verb == kinds.UpdateStatus {
		method = "Update" + c.kind.Name + "Status"
	} else if dryRun {
		set["dry_run"] = true
	}
	if verb == kinds.Delete {
		meta := o.GetMetadata()
		set["name"], set["uid"], set["resource_version"] = meta.GetName(), meta.GetUid(), meta.GetResourceVersion()
		if c.kind.Namespaced {
			set["namespace"] = meta.GetNamespace()
		}
		o = nil
	}
	answer, err := c.call(method, o, set)
	if err != nil {
		return nil, err
	}
	written, _ := answer.Get(answer.Descriptor().Fields().ByNumber(1)).Message().Interface().(object.Object)
	return written, nil
}

// bulk makes writes in one call.
func bulk(t *testing.T, conn *grpc.ClientConn, req *registryv1.WriteRequest) []*registryv1.WriteResult {
	t.Helper()
	answer, err := registryv1.NewBulkServiceClient(conn).Write(within(t), req)
	if err != nil {
		t.Fatal(err)
	}
	if len(answer.GetResults()) != len(req.GetOperations()) {
		t.Fatalf("%d results of %d operations", len(answer.GetResults()), len(req.GetOperations()))
	}
	return answer.GetResults()
}

// errorOf returns the error of a result.
func errorOf(result *registryv1.WriteResult) error {
	failure := result.GetError()
	return apierr.FromFields(failure.GetCode(), failure.GetMessage(), failure.GetDetails())
}

// summaryOf returns the outcome of a result, and the code of its error.
func summaryOf(result *registryv1.WriteResult) string {
	text := strings.TrimPrefix(result.GetOutcome().String(), "WRITE_OUTCOME_")
	if err := errorOf(result); err != nil {
		text += " " + apierr.Code(err).String()
	}
	return text
}

// slice returns an EndpointSlice.
func slice(name, address string) *corev1.EndpointSlice {
	return &corev1.EndpointSlice{
		Metadata: &corev1.ObjectMeta{Name: name}, AddressType: corev1.AddressType_ADDRESS_TYPE_IPV4, Endpoints: []*corev1.Endpoint{{Addresses: []string{address}}},
	}
}

func TestBulkOutcomes(t *testing.T) {
	_, r := run(t)
	first := r.create(t, web("first"))
	stale := web("first", func(s *corev1.Service) { s.Metadata.ResourceVersion = first.GetMetadata().GetResourceVersion() + 7 })
	steps := []struct {
		what string
		op   *registryv1.WriteOperation
		want string
	}{
		{"a service with an address", operation(kinds.Create, web("second")), "CREATED"},
		{"an update of a stale version", operation(kinds.Update, stale), "FAILED Aborted"},
		{"the same object, applied as it is", operation("", web("first")), "UPDATED"}, // its fields are recorded
		{"the same object, applied again", operation("", web("first")), "UNCHANGED"},
		{"the same object, by its namespace", operation(kinds.Delete, &corev1.Service{Metadata: &corev1.ObjectMeta{Name: "first", Namespace: "default"}}), "DELETED"},
		{"the same object, gone", operation(kinds.Delete, web("first")), "FAILED NotFound"},
		{"the same object, made anew", operation("", web("first")), "CREATED"},
		{"a slice", operation(kinds.Create, slice("s", "192.0.2.1")), "CREATED"},
		{"its update", operation(kinds.Update, slice("s", "192.0.2.2")), "UPDATED"},
		{"an invalid slice", operation(kinds.Create, slice("bad", "nowhere")), "FAILED InvalidArgument"},
		{"a slice with a generated name", operation(kinds.Create, &corev1.EndpointSlice{
			Metadata: &corev1.ObjectMeta{GenerateName: "g-"}, AddressType: corev1.AddressType_ADDRESS_TYPE_IPV4,
		}), "CREATED"},
		{"a namespace that terminates", operation(kinds.Create, &corev1.Namespace{Metadata: &corev1.ObjectMeta{Name: "shop"}}), "CREATED"},
		{"its deletion", operation(kinds.Delete, &corev1.Namespace{Metadata: &corev1.ObjectMeta{Name: "shop"}}), "TERMINATING"},
		{"a kind without status", operation(kinds.UpdateStatus, slice("s", "192.0.2.1")), "FAILED InvalidArgument"},
		{"no write", &registryv1.WriteOperation{}, "FAILED InvalidArgument"},
		{"no object", &registryv1.WriteOperation{Write: &registryv1.WriteOperation_Apply{Apply: &corev1.Object{}}}, "FAILED InvalidArgument"},
		{"an unknown kind", &registryv1.WriteOperation{Write: &registryv1.WriteOperation_Delete{Delete: &registryv1.DeleteOperation{Kind: "endpointslices", Name: "s"}}}, "FAILED InvalidArgument"},
		{"no name", operation(kinds.Delete, &corev1.Service{}), "FAILED InvalidArgument"},
		{"a grace period without meaning", &registryv1.WriteOperation{Write: &registryv1.WriteOperation_Delete{Delete: &registryv1.DeleteOperation{
			Kind: "EndpointSlice", Name: "s", GracePeriodSeconds: new(int64),
		}}}, "FAILED InvalidArgument"},
		{"a namespace that is missing", operation(kinds.Create, web("x", func(s *corev1.Service) { s.Metadata.Namespace = "nowhere" })), "FAILED NotFound"},
	}
	req := &registryv1.WriteRequest{}
	for _, step := range steps {
		req.Operations = append(req.Operations, step.op)
	}
	results := bulk(t, r.ClientConn, req)
	for i, step := range steps {
		result := results[i]
		if got := summaryOf(result); got != step.want {
			t.Errorf("%s: %s, want %s: %v", step.what, got, step.want, result)
		}
		if written := object.Unwrap(result.GetObject()); written != nil {
			meta := written.GetMetadata()
			if result.GetName() != meta.GetName() || result.GetUid() != meta.GetUid() || result.GetResourceVersion() != meta.GetResourceVersion() {
				t.Errorf("%s: the result differs from its object: %v", step.what, result)
			}
		}
		if (result.GetRevision() == 0) != (strings.HasPrefix(step.want, "FAILED") || step.want == "UNCHANGED") {
			t.Errorf("%s: revision %d", step.what, result.GetRevision())
		}
	}
	if ip := object.Unwrap(results[0].GetObject()).(*corev1.Service).GetSpec().GetClusterIp(); ip == "" {
		t.Error("the service has no address")
	}
	got, err := r.slices.GetEndpointSlice(within(t), &registryv1.GetEndpointSliceRequest{Name: "s"})
	if err != nil || got.GetEndpointSlice().GetEndpoints()[0].GetAddresses()[0] != "192.0.2.2" {
		t.Errorf("the slice is %v, %v", got, err)
	}
}

// TestBulkLimits checks that some mistakes refuse a call as a whole, and that an answer is never too large.
func TestBulkLimits(t *testing.T) {
	_, r := run(t)
	client := registryv1.NewBulkServiceClient(r.ClientConn)
	many := make([]*registryv1.WriteOperation, 1001)
	for i := range many {
		many[i] = operation(kinds.Create, slice(fmt.Sprint("s", i), "192.0.2.1"))
	}
	for name, ops := range map[string][]*registryv1.WriteOperation{"none": nil, "too many": many} {
		if _, err := client.Write(within(t), &registryv1.WriteRequest{Operations: ops}); len(apierr.ViolationsOf(err)) != 1 {
			t.Errorf("%s: %v", name, err)
		}
	}
	fenced := metadata.AppendToOutgoingContext(within(t), "portolan-fence", "nonsense")
	if _, err := client.Write(fenced, &registryv1.WriteRequest{Operations: many[:1]}); apierr.Code(err) != codes.InvalidArgument {
		t.Errorf("a malformed fence: %v", err)
	}
	fenced = metadata.AppendToOutgoingContext(within(t), "portolan-fence", "default/leader=7")
	answer, err := client.Write(fenced, &registryv1.WriteRequest{Operations: many[:2]})
	if err != nil || summaryOf(answer.GetResults()[0]) != "FAILED FailedPrecondition" || summaryOf(answer.GetResults()[1]) != "FAILED FailedPrecondition" {
		t.Errorf("a fence that does not hold: %v, %v", answer, err)
	}

	const large = 100 // objects of 100 KB, more than one answer may have
	for begin := 0; begin < large; begin += 30 {
		var ops []*registryv1.WriteOperation
		for n := begin; n < min(large, begin+30); n++ {
			o := slice(fmt.Sprint("large", n), "192.0.2.1")
			o.Metadata.Annotations = map[string]string{"a": strings.Repeat("x", 100_000)}
			ops = append(ops, operation(kinds.Create, o))
		}
		bulk(t, r.ClientConn, &registryv1.WriteRequest{Operations: ops, Brief: true})
	}
	var deletions []*registryv1.WriteOperation
	for n := range large {
		deletions = append(deletions, operation(kinds.Delete, slice(fmt.Sprint("large", n), "")))
	}
	with := 0
	for _, result := range bulk(t, r.ClientConn, &registryv1.WriteRequest{Operations: deletions}) {
		if result.GetObject() != nil {
			with++
		}
		if summaryOf(result) != "DELETED" || result.GetUid() == "" {
			t.Errorf("deletion: %v", result)
		}
	}
	if with == 0 || with == large {
		t.Errorf("%d of %d results have their object", with, large)
	}
}

// TestLargestBulkErrors checks that the errors of a call fit into an answer.
func TestLargestBulkErrors(t *testing.T) {
	_, r := run(t)
	ops := make([]*registryv1.WriteOperation, 1000)
	for i := range ops {
		o := slice(fmt.Sprint("s", i), "nowhere")
		for range 99 {
			o.Endpoints = append(o.Endpoints, o.GetEndpoints()[0])
		}
		ops[i] = operation(kinds.Create, o)
	}
	detailed := 0
	for _, result := range bulk(t, r.ClientConn, &registryv1.WriteRequest{Operations: ops}) {
		if summaryOf(result) != "FAILED InvalidArgument" || result.GetError().GetMessage() == "" {
			t.Fatal(result)
		}
		detailed += min(1, len(result.GetError().GetDetails()))
	}
	if detailed == 0 || detailed == len(ops) {
		t.Errorf("%d of %d errors have details", detailed, len(ops))
	}
}

// volatile matches the texts that differ between two registries: revisions, times and random names.
var volatile = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}|\d+`)

// comparable returns an object without the fields that the registry chooses.
func comparable(o object.Object) object.Object {
	if o == nil {
		return nil
	}
	o = object.Clone(o)
	meta := object.MetaOf(o)
	meta.Uid, meta.ResourceVersion, meta.CreationTimestamp, meta.DeletionTimestamp = "", 0, nil, nil
	for _, entry := range meta.GetManagedFields() {
		entry.Time = nil
	}
	if svc, ok := o.(*corev1.Service); ok && svc.GetSpec() != nil {
		svc.Spec.ClusterIp, svc.Spec.ClusterIps = "", nil
		for _, port := range svc.GetSpec().GetPorts() {
			port.NodePort = 0
		}
	}
	return o
}

// TestBulkEqualsSingleWrites makes the same random writes by single calls to one registry and by
// bulk calls to another. Both registries must return the same outcomes and store the same objects.
func TestBulkEqualsSingleWrites(t *testing.T) {
	_, alone := run(t)
	_, together := run(t)
	seen := map[string]int{}
	rapid.Check(t, func(rt *rapid.T) {
		dryRun := rapid.IntRange(0, 4).Draw(rt, "dry") == 0
		names := rapid.Permutation([]string{"a", "b", "c", "d", "e"}).Draw(rt, "names")[:rapid.IntRange(1, 5).Draw(rt, "n")]
		req := &registryv1.WriteRequest{DryRun: dryRun}
		var want []string
		var wantObjects []object.Object
		for _, name := range names {
			verb := rapid.SampledFrom([]kinds.Verb{kinds.Create, kinds.Update, kinds.UpdateStatus, kinds.Delete, ""}).Draw(rt, "verb")
			o := drawObject(rt, name)
			if verb == kinds.UpdateStatus && (dryRun || !kinds.Of(o).HasStatus()) {
				verb = kinds.Update
			}
			stored, err := single(t, alone.ClientConn, verb, object.Clone(o), dryRun)
			want = append(want, apierr.Code(err).String()+" "+volatile.ReplaceAllString(apierr.ToStatus(err).Message(), "#"))
			wantObjects = append(wantObjects, comparable(stored))
			req.Operations = append(req.Operations, operation(verb, o))
			seen[string(verb)+" "+apierr.Code(err).String()]++
		}
		for i, result := range bulk(t, together.ClientConn, req) {
			err := errorOf(result)
			if got := apierr.Code(err).String() + " " + volatile.ReplaceAllString(apierr.ToStatus(err).Message(), "#"); got != want[i] {
				rt.Errorf("%v:\n%s, want\n%s", req.GetOperations()[i], got, want[i])
			}
			got := comparable(object.Unwrap(result.GetObject()))
			if diff := cmp.Diff(wantObjects[i], got, protocmp.Transform()); diff != "" {
				rt.Errorf("%v: other objects (-single +bulk):\n%s", req.GetOperations()[i], diff)
			}
		}
	})
	for _, outcome := range []string{"Create OK", "Create AlreadyExists", "Update OK", "Update NotFound", "Update InvalidArgument", "Delete OK", "Delete NotFound", " OK", "UpdateStatus OK"} {
		if seen[outcome] == 0 {
			t.Errorf("the writes never had the outcome %q: %v", outcome, seen)
		}
	}
}

// drawObject returns an object of one of several kinds, which may be invalid.
func drawObject(rt *rapid.T, name string) object.Object {
	meta := &corev1.ObjectMeta{Name: name, Labels: map[string]string{"app": rapid.SampledFrom([]string{"x", "y", "!"}).Draw(rt, "label")}}
	switch rapid.IntRange(0, 3).Draw(rt, "kind") {
	case 0:
		o := slice(name, rapid.SampledFrom([]string{"192.0.2.1", "192.0.2.2"}).Draw(rt, "address"))
		o.Metadata = meta
		return o
	case 1:
		return &corev1.Pod{
			Metadata: meta, Spec: &corev1.PodSpec{Containers: []*corev1.Container{{Name: "c", Image: "i"}}},
			Status: &corev1.PodStatus{Phase: rapid.SampledFrom([]corev1.PodPhase{corev1.PodPhase_POD_PHASE_PENDING, corev1.PodPhase_POD_PHASE_RUNNING}).Draw(rt, "phase")},
		}
	case 2:
		meta.Labels["app"] = "x"
		fallthrough
	default:
		svc := web(name, func(s *corev1.Service) { s.Metadata = meta })
		if rapid.Bool().Draw(rt, "headless") {
			svc.Spec.ClusterIp = "None"
		}
		return svc
	}
}

// TestBulkGivesNoRights compares the rights of each identity in single calls and in bulk calls. All calls
// are dry runs of every write of every kind, for objects that exist and for others that do not.
func TestBulkGivesNoRights(t *testing.T) {
	g := guard(t)
	operator := g.as("operator")
	for _, namespace := range []string{"shop", "other"} {
		_, err := registryv1.NewNamespaceServiceClient(operator).CreateNamespace(within(t), &registryv1.CreateNamespaceRequest{Namespace: &corev1.Namespace{Metadata: &corev1.ObjectMeta{Name: namespace}}})
		accepted(t, "a namespace", err)
	}
	for _, kind := range kinds.All {
		for _, namespace := range []string{"shop", "other"} {
			if namespace == "other" && !kind.Namespaced {
				continue
			}
			_, err := single(t, operator, kinds.Create, sampleIn(kind, namespace, "exists", "test"), false)
			accepted(t, "a sample", err)
		}
	}
	for _, who := range []string{"operator", "operator/shop", "viewer", "viewer/shop", "allocator", "endpointctl", "dnssvc", "nodeagent/n2", "workload/n2/shop"} {
		t.Run(who, func(t *testing.T) { g.compareRights(t, who) })
	}
}

// sampleIn returns a valid object of a kind. An Event is in the name of its writer.
func sampleIn(kind *kinds.Kind, namespace, name, writer string) object.Object {
	o := sampleOf(kind)
	object.MetaOf(o).Name = name
	if kind.Namespaced {
		object.MetaOf(o).Namespace = namespace
	}
	if event, ok := o.(*corev1.Event); ok {
		event.Regarding = &corev1.ObjectReference{Kind: "Service", Namespace: namespace, Name: name}
		event.ReportingComponent = writer
	}
	return o
}

func (g *guarded) compareRights(t *testing.T, who string) {
	conn := g.as(who)
	allowed, denied := 0, 0
	for _, kind := range kinds.All {
		for _, verb := range []kinds.Verb{kinds.Create, kinds.Update, kinds.UpdateStatus, kinds.Delete, ""} {
			if verb == kinds.UpdateStatus && !kind.HasStatus() {
				continue
			}
			for _, name := range []string{"exists", "exists-not"} {
				for _, namespace := range []string{"shop", "other"} {
					o := sampleIn(kind, namespace, name, who)
					// The contract has no dry run of a status, so the write names a version that does not exist.
					if verb == kinds.UpdateStatus {
						object.MetaOf(o).ResourceVersion = 1 << 60
					}
					_, err := single(t, conn, verb, object.Clone(o), true)
					answer, bulkErr := registryv1.NewBulkServiceClient(conn).Write(within(t), &registryv1.WriteRequest{Operations: []*registryv1.WriteOperation{operation(verb, o)}, DryRun: true})
					if bulkErr != nil {
						if apierr.Code(bulkErr) != codes.PermissionDenied {
							t.Fatal(bulkErr)
						}
						denied++
						continue
					}
					got := errorOf(answer.GetResults()[0])
					if apierr.Code(got) != apierr.Code(err) || apierr.ToStatus(got).Message() != apierr.ToStatus(err).Message() {
						t.Errorf("%s %s %s/%s: %v, want %v", verb, kind.Name, namespace, name, got, err)
					}
					if apierr.Code(err) == codes.PermissionDenied {
						denied++
					} else {
						allowed++
					}
				}
			}
		}
	}
	may := map[string]bool{"operator": true, "operator/shop": true, "allocator": true, "endpointctl": true}
	if (allowed > 0) != may[who] || who != "operator" && denied == 0 {
		t.Errorf("%d writes were allowed, %d denied", allowed, denied)
	}
}

// TestRolesWithARateMakeNoBulkCalls checks the reason why bulk calls need not count writes.
func TestRolesWithARateMakeNoBulkCalls(t *testing.T) {
	g := guard(t)
	for _, who := range []string{"nodeagent/n2", "workload/n2/shop"} {
		_, err := registryv1.NewBulkServiceClient(g.as(who)).Write(within(t), &registryv1.WriteRequest{})
		refused(t, who, err, "may not call /portolan.registry.v1.BulkService/Write")
	}
}

// TestBulkKeepsQuotas creates more pods at once than a namespace may have.
func TestBulkKeepsQuotas(t *testing.T) {
	_, r := run(t, quotas(t, "default:pods=3"))
	var ops []*registryv1.WriteOperation
	for n := range 8 {
		pod, _ := samples()["Pod"].(*corev1.Pod)
		pod.Metadata.Name = fmt.Sprint("p", n)
		ops = append(ops, operation(kinds.Create, pod))
	}
	created := 0
	for _, result := range bulk(t, r.ClientConn, &registryv1.WriteRequest{Operations: ops}) {
		if err := errorOf(result); err != nil {
			overQuota(t, "a pod", err, "3 of 3 are used")
		} else {
			created++
		}
	}
	if created != 3 {
		t.Errorf("%d pods were created, want 3", created)
	}
}

// TestAuditBulk checks that each operation of a bulk call has a line like the single call, and that
// a call that is refused as a whole has one.
func TestAuditBulk(t *testing.T) {
	a := auditing(t)
	operator := a.as("operator")
	pod := secretPod("bad")
	pod.Spec.Containers[0].Name = secret + "!"
	bulk(t, operator, &registryv1.WriteRequest{Operations: []*registryv1.WriteOperation{
		operation(kinds.Create, web("web")), operation(kinds.Create, pod), operation("", web("web")),
		operation(kinds.Delete, slice("none", "")), operation(kinds.Delete, web("web")), {},
	}})
	bulk(t, operator, &registryv1.WriteRequest{Operations: []*registryv1.WriteOperation{operation(kinds.Create, web("dry"))}, DryRun: true, Brief: true})
	bulk(t, a.as("endpointctl"), &registryv1.WriteRequest{Operations: []*registryv1.WriteOperation{operation(kinds.Delete, web("web"))}})
	_, err := registryv1.NewBulkServiceClient(operator).Write(metadata.AppendToOutgoingContext(context.Background(), "portolan-fence", "x"), &registryv1.WriteRequest{
		Operations: []*registryv1.WriteOperation{operation(kinds.Create, web("web")), operation(kinds.Create, web("web"))},
	})
	if err == nil {
		t.Error("a malformed fence was accepted")
	}
	want := []string{
		"operator ServiceService/CreateService Service default/web uid OK revision",
		"operator PodService/CreatePod Pod default/bad INVALID_ARGUMENT: spec.containers: INVALID",
		"operator ApplyService/Apply Service default/web uid OK revision",
		`operator EndpointSliceService/DeleteEndpointSlice EndpointSlice default/none NOT_FOUND: EndpointSlice "default/none" not found`,
		"operator ServiceService/DeleteService Service default/web uid OK revision",
		"operator BulkService/Write INVALID_ARGUMENT: write: REQUIRED",
		"operator ServiceService/CreateService Service default/dry dry OK",
		"endpointctl ServiceService/DeleteService Service default/web PERMISSION_DENIED: role endpointctl (spiffe://portolan/endpointctl) may not call /portolan.registry.v1.ServiceService/DeleteService: use a certificate of the role operator",
		"operator BulkService/Write Service default/web INVALID_ARGUMENT: portolan-fence: INVALID",
	}
	var got []string
	for _, e := range a.lines() {
		got = append(got, summarize(e))
		if e.Bulk != (len(got) < len(want)) {
			t.Errorf("line %d: bulk is %v", len(got), e.Bulk)
		}
		if !e.Bulk && e.Objects != 2 {
			t.Errorf("the refused call has %d objects", e.Objects)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
