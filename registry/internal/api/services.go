package api

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/registry/internal/response"
	"portolan.dev/registry/internal/rules"
	"portolan.dev/services/kinds"
)

type unaryHandler func(ctx context.Context, row *rules.Kind, req proto.Message, field protoreflect.FieldDescriptor) (*response.Message, error)

// Register registers the services of all kinds. It returns an error for a mistake in the API definition or
// in this package. The server must have the codec of services/kit/rpc, see package response.
func (s *Objects) Register(server grpc.ServiceRegistrar) error {
	for _, row := range rules.All {
		desc, err := s.describe(row)
		if err != nil {
			return fmt.Errorf("service of kind %s: %w", row.Name, err)
		}
		server.RegisterService(desc, nil)
	}
	return nil
}

// describe builds the service description of one kind.
func (s *Objects) describe(row *rules.Kind) (*grpc.ServiceDesc, error) {
	service, err := serviceOf(row)
	if err != nil {
		return nil, err
	}
	desc := &grpc.ServiceDesc{ServiceName: string(service.FullName()), Metadata: service.ParentFile().Path()}
	var wrong []error
	for i := range service.Methods().Len() {
		wrong = append(wrong, s.addMethod(desc, row, service.Methods().Get(i)))
	}
	return desc, errors.Join(wrong...)
}

// serviceOf returns the service of a kind in the API.
func serviceOf(row *rules.Kind) (protoreflect.ServiceDescriptor, error) {
	pkg := registryv1.File_portolan_registry_v1_watch_proto.Package()
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(pkg.Append(protoreflect.Name(row.ServiceName())))
	if err != nil {
		return nil, errors.New("not in the contract")
	}
	service, ok := found.(protoreflect.ServiceDescriptor)
	if !ok {
		return nil, fmt.Errorf("%s is no service", found.FullName())
	}
	return service, nil
}

func (s *Objects) addMethod(desc *grpc.ServiceDesc, row *rules.Kind, method protoreflect.MethodDescriptor) error {
	if err := response.Check(method.Output(), row.New().ProtoReflect().Descriptor().FullName()); err != nil {
		return err
	}
	request, err := protoregistry.GlobalTypes.FindMessageByName(method.Input().FullName())
	if err != nil {
		return err
	}
	if method.IsStreamingServer() {
		if _, ok := request.Zero().Interface().(watchRequest); !ok {
			return fmt.Errorf("%s is no request for a watch", request.Descriptor().FullName())
		}
		desc.Streams = append(desc.Streams, s.streaming(row, method, request))
		return nil
	}
	handle, err := s.handlerOf(row, string(method.Name()), request.Zero().Interface())
	if err != nil {
		return err
	}
	desc.Methods = append(desc.Methods, unaryMethod(row, method, request, row.FieldIn(request.Descriptor()), handle))
	return nil
}

// handlerOf returns the function that implements a method. It returns an error if the method's
// request type lacks a method that the function needs.
func (s *Objects) handlerOf(row *rules.Kind, method string, request proto.Message) (unaryHandler, error) {
	var handle unaryHandler
	ok := true
	switch method {
	case row.Method(kinds.Create):
		handle = s.writing(s.Writer.Create)
		_, ok = request.(dryRun)
	case row.Method(kinds.Update):
		handle = s.writing(s.Writer.Update)
		_, ok = request.(dryRun)
	case row.Method(kinds.UpdateStatus):
		handle = s.writing(s.Writer.UpdateStatus)
		_, ok = request.(dryRun)
	case row.Method(kinds.Get):
		handle = s.get
		_, ok = request.(getRequest)
	case row.Method(kinds.Delete):
		handle = s.remove
		_, ok = request.(deleteRequest)
	case row.Method(kinds.List):
		handle = s.list
		_, ok = request.(listRequest)
	}
	if handle == nil || !ok {
		return nil, fmt.Errorf("nothing answers method %s with %s", method, request.ProtoReflect().Descriptor().FullName())
	}
	return handle, nil
}

func unaryMethod(row *rules.Kind, method protoreflect.MethodDescriptor, request protoreflect.MessageType, field protoreflect.FieldDescriptor, handle unaryHandler) grpc.MethodDesc {
	full := fullName(method)
	return grpc.MethodDesc{
		MethodName: string(method.Name()),
		Handler: func(server any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
			req := request.New().Interface()
			if err := decode(req); err != nil {
				return nil, err
			}
			handler := func(ctx context.Context, req any) (any, error) {
				message, _ := req.(proto.Message)
				return handle(ctx, row, message, field)
			}
			if intercept == nil {
				return handler(ctx, req)
			}
			return intercept(ctx, req, &grpc.UnaryServerInfo{Server: server, FullMethod: full}, handler)
		},
	}
}

func (s *Objects) streaming(row *rules.Kind, method protoreflect.MethodDescriptor, request protoreflect.MessageType) grpc.StreamDesc {
	return grpc.StreamDesc{
		StreamName: string(method.Name()), ServerStreams: true,
		Handler: func(_ any, stream grpc.ServerStream) error {
			req := request.New().Interface()
			if err := stream.RecvMsg(req); err != nil {
				return err
			}
			return s.watch(row, req, stream)
		},
	}
}

func fullName(method protoreflect.MethodDescriptor) string {
	return fmt.Sprintf("/%s/%s", method.Parent().FullName(), method.Name())
}
