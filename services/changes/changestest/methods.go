package changestest

import (
	"context"
	"strconv"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/kinds"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
)

// Outcome is the outcome of a [Call].
type Outcome struct {
	Object object.Object
	Err    error
}

// Methods are the methods of all kinds and of BulkService, as one function. It gets the name of the method
// and the calls of the request, of which only a request of BulkService has several. It returns an outcome for
// each call.
type Methods func(ctx context.Context, method string, calls []Call) []Outcome

type method struct {
	kind *kinds.Kind
	verb kinds.Verb
}

// methods are the methods of kinds by their full names.
var methods = func() map[string]method {
	all := map[string]method{}
	for _, kind := range kinds.All {
		for _, verb := range []kinds.Verb{kinds.Create, kinds.Get, kinds.Update, kinds.UpdateStatus, kinds.Delete} {
			if name := kind.FullMethod(verb); name != "" {
				all[name] = method{kind, verb}
			}
		}
	}
	return all
}()

// Answer answers a request, of the method with the full name.
func (m Methods) Answer(ctx context.Context, name string, request, reply proto.Message) error {
	if many, ok := request.(*registryv1.WriteRequest); ok {
		calls := make([]Call, len(many.GetOperations()))
		for i, operation := range many.GetOperations() {
			target, deletion := kinds.OperationOf(operation), operation.GetDelete()
			calls[i] = Call{target.Verb, target.Object, target.Key, deletion.GetUid(), deletion.GetResourceVersion()}
		}
		answer := &registryv1.WriteResponse{}
		for i, outcome := range m(ctx, name, calls) {
			answer.Results = append(answer.Results, resultOf(calls[i].Verb, outcome))
		}
		proto.Merge(reply, answer)
		return nil
	}
	called, ok := methods[name]
	if !ok {
		return status.Errorf(codes.Unimplemented, "the registry of a test has no method %s", name)
	}
	outcome := m(ctx, name, []Call{called.call(request)})[0]
	if outcome.Err == nil {
		message := reply.ProtoReflect()
		message.Set(called.kind.FieldIn(message.Descriptor()), protoreflect.ValueOfMessage(object.Clone(outcome.Object).ProtoReflect()))
	}
	return outcome.Err
}

// call returns the call of a request.
func (m method) call(request proto.Message) Call {
	message := request.ProtoReflect()
	if field := m.kind.FieldIn(message.Descriptor()); field != nil {
		o, _ := message.Get(field).Message().Interface().(object.Object)
		return Call{Verb: m.verb, Object: o}
	}
	c := Call{Verb: m.verb, Key: object.Key{Kind: m.kind.Name}}
	if r, ok := request.(interface{ GetNamespace() string }); ok {
		c.Key.Namespace = r.GetNamespace()
	}
	if r, ok := request.(interface{ GetName() string }); ok {
		c.Key.Name = r.GetName()
	}
	if r, ok := request.(interface {
		GetUid() string
		GetResourceVersion() uint64
	}); ok {
		c.UID, c.Version = r.GetUid(), r.GetResourceVersion()
	}
	return c
}

func resultOf(verb kinds.Verb, outcome Outcome) *registryv1.WriteResult {
	if outcome.Err != nil {
		st := apierr.ToStatus(outcome.Err).Proto()
		return &registryv1.WriteResult{
			Outcome: registryv1.WriteOutcome_WRITE_OUTCOME_FAILED,
			Error:   &registryv1.WriteError{Code: st.GetCode(), Message: st.GetMessage(), Details: st.GetDetails()},
		}
	}
	meta := outcome.Object.GetMetadata()
	result := &registryv1.WriteResult{
		Outcome: registryv1.WriteOutcome_WRITE_OUTCOME_UPDATED, Name: meta.GetName(), Uid: meta.GetUid(), ResourceVersion: meta.GetResourceVersion(),
	}
	switch verb {
	case kinds.Create:
		result.Outcome = registryv1.WriteOutcome_WRITE_OUTCOME_CREATED
	case kinds.Delete:
		result.Outcome = registryv1.WriteOutcome_WRITE_OUTCOME_DELETED
	}
	return result
}

// Register registers the services of all kinds, without lists and watches, and BulkService.
func (m Methods) Register(server grpc.ServiceRegistrar) {
	services := map[string]*grpc.ServiceDesc{}
	for name := range methods {
		m.describe(services, name)
	}
	m.describe(services, registryv1.BulkService_Write_FullMethodName)
	for _, service := range services {
		server.RegisterService(service, struct{}{})
	}
}

// describe adds a method to the description of its service.
func (m Methods) describe(services map[string]*grpc.ServiceDesc, full string) {
	service, name, _ := strings.Cut(full[1:], "/")
	if services[service] == nil {
		services[service] = &grpc.ServiceDesc{ServiceName: service, HandlerType: (*any)(nil)}
	}
	services[service].Methods = append(services[service].Methods, grpc.MethodDesc{MethodName: name, Handler: func(
		_ any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor,
	) (any, error) {
		request, reply := newMessage(name+"Request"), newMessage(name+"Response")
		if err := decode(request); err != nil {
			return nil, err
		}
		handle := func(ctx context.Context, _ any) (any, error) { return reply, m.Answer(ctx, full, request, reply) }
		if intercept == nil {
			return handle(ctx, request)
		}
		return intercept(ctx, request, &grpc.UnaryServerInfo{FullMethod: full}, handle)
	}})
}

// newMessage returns an empty message of the API.
func newMessage(name string) proto.Message {
	found, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName("portolan.registry.v1." + name))
	if err != nil {
		panic(err) // the name is made by the rule of all methods
	}
	return found.New().Interface()
}

// CheckFences returns an error if a fence in the metadata of a call names a Lease that has another epoch. It
// also returns the number of fences.
func (l *Log) CheckFences(ctx context.Context) (int, error) {
	fences := metadata.ValueFromIncomingContext(ctx, "portolan-fence")
	for _, fence := range fences {
		name, epoch, _ := strings.Cut(fence, "=")
		namespace, name, _ := strings.Cut(name, "/")
		lease, _ := l.Get(object.Key{Kind: "Lease", Namespace: namespace, Name: name}).(*corev1.Lease)
		if want, err := strconv.ParseUint(epoch, 10, 64); err != nil || lease.GetSpec().GetEpoch() != want {
			return len(fences), apierr.FailedPrecondition("the writer does not hold the lease")
		}
	}
	return len(fences), nil
}
