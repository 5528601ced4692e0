package changes_test

import (
	"context"
	"fmt"
	"io"
	"path"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/changes/changestest"
)

// direct is a connection to a log that calls its ChangeService in place. It has no goroutine and
// no transport, so a schedule takes a fraction of a millisecond. Answers are copies, as they are
// behind a transport.
type direct struct {
	service *grpc.ServiceDesc
	server  any
	breaks  bool // snapshots break off after half of their first batch
}

func dial(log *changestest.Log) *direct {
	d := &direct{}
	log.Register(d)
	return d
}

// RegisterService implements grpc.ServiceRegistrar.
func (d *direct) RegisterService(service *grpc.ServiceDesc, server any) {
	d.service, d.server = service, server
}

// Invoke implements grpc.ClientConnInterface.
func (d *direct) Invoke(
	ctx context.Context, method string, args, reply any, _ ...grpc.CallOption,
) error {
	for _, m := range d.service.Methods {
		if m.MethodName != path.Base(method) {
			continue
		}
		question := func(into any) error { return copyTo(into, args) }
		answer, err := m.Handler(d.server, ctx, question, nil)
		if err != nil {
			return err
		}
		return copyTo(reply, answer)
	}
	return status.Error(codes.Unimplemented, method)
}

// NewStream implements grpc.ClientConnInterface.
func (d *direct) NewStream(
	ctx context.Context, _ *grpc.StreamDesc, method string, _ ...grpc.CallOption,
) (grpc.ClientStream, error) {
	for _, s := range d.service.Streams {
		if s.StreamName == path.Base(method) {
			return &directStream{ctx: ctx, conn: d, handler: s.Handler}, nil
		}
	}
	return nil, status.Error(codes.Unimplemented, method)
}

// directStream is a stream of answers to one question, all of which are made when the question is
// complete.
type directStream struct {
	grpc.ClientStream // nil: headers and trailers are not asked for

	ctx     context.Context
	conn    *direct
	handler grpc.StreamHandler
	asked   any
	answers []any
	end     error
}

// SendMsg implements grpc.ClientStream.
func (s *directStream) SendMsg(m any) error {
	s.asked = m
	return nil
}

// CloseSend implements grpc.ClientStream.
func (s *directStream) CloseSend() error {
	if s.end = s.handler(s.conn.server, answering{stream: s}); s.end == nil {
		s.end = io.EOF
	}
	if s.conn.breaks && s.end == io.EOF {
		first := proto.CloneOf(s.answers[0].(*registryv1.SnapshotResponse))
		first.Objects, first.Complete = first.GetObjects()[:len(first.GetObjects())/2], false
		s.answers, s.end = []any{first}, status.Error(codes.Unavailable, "broke off")
	}
	return nil
}

// RecvMsg implements grpc.ClientStream.
func (s *directStream) RecvMsg(m any) error {
	if len(s.answers) == 0 {
		return s.end
	}
	next := s.answers[0]
	s.answers = s.answers[1:]
	return copyTo(m, next)
}

// answering is the server's side of a stream.
type answering struct {
	grpc.ServerStream // nil: headers and trailers are not set

	stream *directStream
}

// Context implements grpc.ServerStream.
func (a answering) Context() context.Context { return a.stream.ctx }

// RecvMsg implements grpc.ServerStream.
func (a answering) RecvMsg(m any) error { return copyTo(m, a.stream.asked) }

// SendMsg implements grpc.ServerStream.
func (a answering) SendMsg(m any) error {
	a.stream.answers = append(a.stream.answers, m)
	return nil
}

// copyTo makes one message equal to another.
func copyTo(into, from any) error {
	to, ok := into.(proto.Message)
	source, also := from.(proto.Message)
	if !ok || !also {
		return fmt.Errorf("%T or %T is no message", into, from)
	}
	proto.Reset(to)
	proto.Merge(to, source)
	return nil
}
