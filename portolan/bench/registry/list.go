package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/portolan/bench/internal/rig"
	"portolan.dev/services/kit/yardstick"
	"portolan.dev/services/object"
)

const (
	listServices = 10_000
	listSlices   = 100_000
)

// manyObjects yields services and slices of one endpoint each.
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
				Labels: map[string]string{object.LabelServiceName: fmt.Sprintf("seed-%06d", i%listServices)},
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

// measureList reads 110 000 objects from the registry, and again from a server that sends one
// object per message with gRPC's default codec.
func (b *bench) measureList(ctx context.Context) error {
	i, err := b.install(ctx, "list", manyObjects)
	if err != nil {
		return err
	}
	plain, conn, err := b.startPlain(ctx)
	if err != nil {
		return err
	}
	rounds, _ := b.rounds()
	var ours, theirs reading
	for range 2*rounds + 1 {
		if err := ours.measure(i.Registry, func() error { return snapshot(ctx, i.Conn) }); err != nil {
			return err
		}
		if err := theirs.measure(plain, func() error { return plainList(ctx, conn) }); err != nil {
			return err
		}
	}
	fmt.Printf("\nlist of %d objects: %s\nplain codec, one object in each message: %s\n", listServices+listSlices, &ours, &theirs)
	b.rig.Ratio("list110k_cpu_vs_plain", rig.Quotient(ours.cpu, theirs.cpu), yardstick.AtMost(0.37))
	i.Stop()
	return nil
}

// reading holds the costs of lists, in nanoseconds.
type reading struct{ time, cpu, serving []float64 }

// lists is the number of lists per figure, because the CPU time of a process has a resolution of a
// hundredth of a second.
const lists = 5

// measure reads lists from a server. It collects this process's garbage first, so that older
// garbage does not count.
func (r *reading) measure(from interface{ CPU() time.Duration }, read func() error) error {
	runtime.GC()
	began, self, server := time.Now(), yardstick.CPUOfSelf(), from.CPU()
	for range lists {
		if err := read(); err != nil {
			return err
		}
	}
	took, client, serving := time.Since(began), yardstick.CPUOfSelf()-self, from.CPU()-server
	r.time, r.cpu, r.serving = append(r.time, float64(took/lists)), append(r.cpu, float64((client+serving)/lists)), append(r.serving, float64(serving/lists))
	return nil
}

func (r *reading) String() string {
	text := func(values []float64) string {
		return fmt.Sprintf("%.0f ms", rig.Millis(time.Duration(rig.Median(values))))
	}
	return fmt.Sprintf("%s, CPU of server and client %s, of the server alone %s", text(r.time), text(r.cpu), text(r.serving))
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

// startPlain starts this program as the server of [servePlain]. With its objects in this process,
// their garbage collection would count as the client's.
func (b *bench) startPlain(ctx context.Context) (rig.Process, *grpc.ClientConn, error) {
	self, err := os.Executable()
	if err != nil {
		return rig.Process{}, nil, err
	}
	plain := rig.Process{Cmd: exec.CommandContext(ctx, self, "-serve-plain")}
	plain.Cmd.Stderr = os.Stderr
	out, err := plain.Cmd.StdoutPipe()
	if err != nil {
		return plain, nil, err
	}
	if err := plain.Cmd.Start(); err != nil {
		return plain, nil, err
	}
	b.rig.Defer(plain.Stop)
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return plain, nil, fmt.Errorf("the plain server does not start: %w", err)
	}
	conn, err := grpc.NewClient("passthrough:///"+strings.TrimSpace(addr), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err == nil {
		b.rig.Defer(func() { _ = conn.Close() })
	}
	return plain, conn, err
}

// servePlain serves the objects one by one until ctx is done, and prints its address.
func servePlain(ctx context.Context) error {
	var all []*corev1.Object
	for o := range manyObjects {
		revision := uint64(len(all) + 1)
		rig.SetIdentity(o.GetMetadata(), revision)
		o.GetMetadata().ResourceVersion = revision
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
		return err
	}
	fmt.Println(lis.Addr())
	defer context.AfterFunc(ctx, srv.Stop)()
	return srv.Serve(lis)
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
