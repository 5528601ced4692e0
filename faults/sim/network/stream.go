package network

import (
	"context"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"portolan.dev/services/kit/apierr"
)

// Services are handlers by method.
type Handlers struct {
	unary   map[string]func(ctx context.Context, request, reply proto.Message) error
	streams map[string]func(stream grpc.ServerStream) error
}

// Serve returns the handlers of the services that register registers.
func NewHandlers(register func(grpc.ServiceRegistrar)) Handlers {
	s := Handlers{
		unary:   map[string]func(context.Context, proto.Message, proto.Message) error{},
		streams: map[string]func(grpc.ServerStream) error{},
	}
	register(s)
	return s
}

// RegisterService implements grpc.ServiceRegistrar.
func (h Handlers) RegisterService(service *grpc.ServiceDesc, server any) {
	for _, m := range service.Methods {
		h.unary["/"+service.ServiceName+"/"+m.MethodName] = func(ctx context.Context, request, reply proto.Message) error {
			replied, err := m.Handler(server, ctx, requestDecoder(request), nil)
			if err == nil {
				message, _ := replied.(proto.Message)
				proto.Merge(reply, message)
			}
			return err
		}
	}
	for _, m := range service.Streams {
		h.streams["/"+service.ServiceName+"/"+m.StreamName] = func(stream grpc.ServerStream) error { return m.Handler(server, stream) }
	}
}

// into returns the function by which a handler gets its request: a copy, as after a transport.
func requestDecoder(request proto.Message) func(any) error {
	return func(to any) error {
		message, _ := to.(proto.Message)
		proto.Merge(message, request)
		return nil
	}
}

// stream opens a stream with one request and many answers. The handler runs to its end before the
// first answer travels, so all answers show the state of one moment.
func (n *Network) stream(ctx context.Context, _ *grpc.StreamDesc, _ *grpc.ClientConn, method string, _ grpc.Streamer, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	if err := n.transmit(ctx); err != nil {
		return nil, err
	}
	return &clientStream{network: n, ctx: ctx, handler: n.handlers.streams[method]}, nil
}

// clientStream is the caller's end of a stream.
type clientStream struct {
	grpc.ClientStream
	network *Network
	ctx     context.Context
	handler func(grpc.ServerStream) error
	replies []proto.Message
	err     error
}

// SendMsg implements grpc.ClientStream: the request, which is answered at once.
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

// serverStream is the handler's end of a stream.
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
