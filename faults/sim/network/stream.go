package network

import (
	"context"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"portolan.dev/services/kit/apierr"
)

// Handlers has the handlers of gRPC services, by full method name.
type Handlers struct {
	unary   map[string]func(ctx context.Context, request, reply proto.Message) error
	streams map[string]func(stream grpc.ServerStream) error
}

// NewHandlers returns the handlers of the services that register registers.
func NewHandlers(register func(grpc.ServiceRegistrar)) Handlers {
	h := Handlers{
		unary:   map[string]func(context.Context, proto.Message, proto.Message) error{},
		streams: map[string]func(grpc.ServerStream) error{},
	}
	register(h)
	return h
}

// RegisterService implements grpc.ServiceRegistrar.
func (h Handlers) RegisterService(service *grpc.ServiceDesc, server any) {
	for _, m := range service.Methods {
		h.unary["/"+service.ServiceName+"/"+m.MethodName] = func(ctx context.Context, request, reply proto.Message) error {
			result, err := m.Handler(server, ctx, requestDecoder(request), nil)
			if err == nil {
				message, _ := result.(proto.Message)
				proto.Merge(reply, message)
			}
			return err
		}
	}
	for _, m := range service.Streams {
		h.streams["/"+service.ServiceName+"/"+m.StreamName] = func(stream grpc.ServerStream) error { return m.Handler(server, stream) }
	}
}

// requestDecoder returns the function with which a handler decodes its request. Like a transport,
// it gives the handler a copy.
func requestDecoder(request proto.Message) func(any) error {
	return func(to any) error {
		message, _ := to.(proto.Message)
		proto.Merge(message, request)
		return nil
	}
}

// stream opens a stream with one request and many replies. The handler finishes before the first
// reply is sent, so all replies show the state at the same instant.
func (n *Network) stream(ctx context.Context, _ *grpc.StreamDesc, _ *grpc.ClientConn, method string, _ grpc.Streamer, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	if err := n.transmit(ctx); err != nil {
		return nil, err
	}
	return &clientStream{network: n, ctx: ctx, handler: n.handlers.streams[method]}, nil
}

// clientStream is the client's side of a stream.
type clientStream struct {
	grpc.ClientStream
	network *Network
	ctx     context.Context
	handler func(grpc.ServerStream) error
	replies []proto.Message
	err     error
}

// SendMsg implements grpc.ClientStream. It sends the request and runs the handler.
func (s *clientStream) SendMsg(request any) error {
	message, _ := request.(proto.Message)
	server := &serverStream{ctx: s.network.serverContext(s.ctx), request: message}
	s.err = s.handler(server)
	s.replies = server.replies
	return nil
}

// CloseSend implements grpc.ClientStream.
func (s *clientStream) CloseSend() error { return nil }

// RecvMsg implements grpc.ClientStream.
func (s *clientStream) RecvMsg(to any) error {
	if err := s.network.transmit(s.ctx); err != nil {
		return err
	}
	if len(s.replies) == 0 {
		if s.err != nil {
			return apierr.ToStatus(s.err).Err()
		}
		return io.EOF
	}
	message, _ := to.(proto.Message)
	proto.Merge(message, s.replies[0])
	s.replies = s.replies[1:]
	return nil
}

// serverStream is the server's side of a stream.
type serverStream struct {
	ctx     context.Context
	request proto.Message
	replies []proto.Message
}

// Context implements grpc.ServerStream.
func (s *serverStream) Context() context.Context { return s.ctx }

// RecvMsg implements grpc.ServerStream.
func (s *serverStream) RecvMsg(to any) error { return requestDecoder(s.request)(to) }

// SendMsg implements grpc.ServerStream.
func (s *serverStream) SendMsg(reply any) error {
	message, _ := reply.(proto.Message)
	s.replies = append(s.replies, message)
	return nil
}

// SetHeader implements grpc.ServerStream.
func (s *serverStream) SetHeader(metadata.MD) error { return nil }

// SendHeader implements grpc.ServerStream.
func (s *serverStream) SendHeader(metadata.MD) error { return nil }

// SetTrailer implements grpc.ServerStream.
func (s *serverStream) SetTrailer(metadata.MD) {}
