package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	corev1 "portolan.dev/proto/portolan/core/v1"
	registryv1 "portolan.dev/proto/portolan/registry/v1"
	"portolan.dev/services/object"
)

const (
	listServices = 10_000
	listSlices   = 100_000
)

// manyObjects are services with slices of one endpoint.
func manyObjects(yield func(object.Object) bool) {
	for i := range listServices {
		if !yield(service(fmt.Sprintf("seed-%06d", i), "None")) {
			return
		}
	}
	ready, port, name := true, int32(8080), "http"
	for i := range listSlices {
		if !yield(&corev1.EndpointSlice{
			Metadata: &corev1.ObjectMeta{
				Name: fmt.Sprintf("seed-%06d", i), Namespace: "default",
				Labels: map[string]string{"kubernetes.io/service-name": fmt.Sprintf("seed-%06d", i%listServices)},
			},
			AddressType: corev1.AddressType_ADDRESS_TYPE_IPV4,
			Endpoints: []*corev1.Endpoint{{
				Addresses: []string{fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255)}, Conditions: &corev1.EndpointConditions{Ready: &ready},
			}},
			Ports: []*corev1.EndpointPort{{Name: &name, Port: &port}},
		}) {
			return
		}
	}
}

// measureList reads 110 000 objects, and again from a server that sends one object in each message by the codec that gRPC comes with.
func (b *bench) measureList(ctx context.Context) error {
	dsn, err := b.seed(ctx, "list", manyObjects)
	if err != nil {
		return err
	}
	i, err := b.install(ctx, "list", dsn)
	if err != nil {
		return err
	}
	plain, err := b.startPlain(manyObjects)
	if err != nil {
		return err
	}
	rounds, _ := b.rounds()
	var ours, serving, theirs, oursTime, theirsTime []float64
	for range 2*rounds + 1 {
		before := i.registry.cpu()
		took, cpu, err := measured(i.registry.cpu, func() error { return snapshot(ctx, i.conns[0]) })
		if err != nil {
			return err
		}
		serving = append(serving, float64(i.registry.cpu()-before))
		ours, oursTime = append(ours, float64(cpu)), append(oursTime, float64(took))
		took, cpu, err = measured(nil, func() error { return plainList(ctx, plain) })
		if err != nil {
			return err
		}
		theirs, theirsTime = append(theirs, float64(cpu)), append(theirsTime, float64(took))
	}
	fmt.Printf("\nlist of %d objects: %s, CPU of server and client %s, of the server alone %s; plain codec, one object in each message: %s, CPU %s\n", listServices+listSlices,
		millis(time.Duration(median(oursTime))), millis(time.Duration(median(ours))), millis(time.Duration(median(serving))), millis(time.Duration(median(theirsTime))), millis(time.Duration(median(theirs))))
	b.ratio("list110k_cpu_vs_plain", quotient(ours, theirs))
	i.registry.stop()
	i.allocator.stop()
	return nil
}

// measured returns the time and the CPU time of this process, and of another one, that do takes.
func measured(other func() time.Duration, do func() error) (took, cpu time.Duration, err error) {
	used := func() time.Duration {
		if other == nil {
			return cpuOfSelf()
		}
		return cpuOfSelf() + other()
	}
	began, before := time.Now(), used()
	err = do()
	return time.Since(began), used() - before, err
}

func snapshot(ctx context.Context, conn *grpc.ClientConn) error {
	stream, err := registryv1.NewChangeServiceClient(conn).Snapshot(ctx, &registryv1.SnapshotRequest{Kinds: []string{"Service", "EndpointSlice"}})
	if err != nil {
		return err
	}
	got := 0
	for {
		batch, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		got += len(batch.GetObjects())
	}
	if got != listServices+listSlices {
		return fmt.Errorf("%d objects in the snapshot", got)
	}
	return nil
}

const plainMethod = "/plain/List"

var plainStream = grpc.StreamDesc{StreamName: "List", ServerStreams: true}

// startPlain serves objects one by one.
func (b *bench) startPlain(objects iter.Seq[object.Object]) (*grpc.ClientConn, error) {
	var all []*corev1.Object
	for o := range objects {
		all = append(all, object.Wrap(o))
	}
	stream := plainStream
	stream.Handler = func(_ any, s grpc.ServerStream) error {
		if err := s.RecvMsg(&registryv1.SnapshotRequest{}); err != nil {
			return err
		}
		for _, o := range all {
			if err := s.SendMsg(o); err != nil {
				return err
			}
		}
		return nil
	}
	srv := grpc.NewServer()
	srv.RegisterService(&grpc.ServiceDesc{ServiceName: "plain", HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{stream}}, struct{}{})
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	go func() { _ = srv.Serve(lis) }()
	b.later(srv.Stop)
	conn, err := grpc.NewClient("passthrough:///"+lis.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err == nil {
		b.later(func() { _ = conn.Close() })
	}
	return conn, err
}

func plainList(ctx context.Context, conn *grpc.ClientConn) error {
	stream, err := conn.NewStream(ctx, &plainStream, plainMethod)
	if err != nil {
		return err
	}
	if err := errors.Join(stream.SendMsg(&registryv1.SnapshotRequest{}), stream.CloseSend()); err != nil {
		return err
	}
	for got := 0; ; got++ {
		err := stream.RecvMsg(&corev1.Object{})
		if errors.Is(err, io.EOF) && got == listServices+listSlices {
			return nil
		}
		if err != nil {
			return fmt.Errorf("after %d objects: %w", got, err)
		}
	}
}
