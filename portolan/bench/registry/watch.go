package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/kit/rpc"
	"portolan.dev/services/kit/yardstick"
)

// perConn is the number of watches that share one connection.
const perConn = 100

// measureWatch measures the cost of a change in the registry's process, with few and with many
// watchers.
func (b *bench) measureWatch(ctx context.Context) error {
	i, err := b.install(ctx, "watch", nil)
	if err != nil {
		return err
	}
	if _, err := i.services().CreateService(ctx, &registryv1.CreateServiceRequest{Service: service("watched", "None")}); err != nil {
		return err
	}
	fmt.Println()
	cpu := map[int]time.Duration{}
	for _, run := range []struct{ watchers, changes int }{{0, 2000}, {10, 2000}, {1000, 200}, {5000, 60}} {
		if b.Quick {
			run.changes /= 3
		}
		if cpu[run.watchers], err = i.watch(ctx, run.watchers, run.changes); err != nil {
			return fmt.Errorf("%d watchers: %w", run.watchers, err)
		}
		fmt.Printf("CPU of the registry per change, %4d watchers: %d µs", run.watchers, cpu[run.watchers].Microseconds())
		if run.watchers > 0 {
			fmt.Printf(", %.1f µs for each watcher beside the write itself", float64((cpu[run.watchers]-cpu[0]).Nanoseconds())/1000/float64(run.watchers))
		}
		fmt.Println()
	}
	b.rig.Ratio("watch_cpu_5000_vs_10", float64(cpu[5000])/float64(cpu[10]), yardstick.Target{})
	i.Stop()
	return nil
}

// watch returns the CPU time of the registry per change with that number of watchers.
func (i *installation) watch(ctx context.Context, watchers, changes int) (time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	var received atomic.Int64
	var conn *grpc.ClientConn
	var err error
	ready := make(chan error, watchers)
	for n := range watchers {
		if n%perConn == 0 {
			if conn, err = rpc.TCP().Dial(i.Registry.Addr); err != nil {
				return 0, err
			}
			defer conn.Close()
		}
		client := registryv1.NewServiceServiceClient(conn)
		all.Go(func() { follow(ctx, client, ready, &received) })
	}
	for range watchers {
		if err := <-ready; err != nil {
			return 0, err
		}
	}
	before := i.Registry.CPU()
	for n := range changes {
		svc := service("watched", "None")
		svc.Metadata.Labels["n"] = fmt.Sprintf("%d-%d", watchers, n)
		if _, err := i.services().UpdateService(ctx, &registryv1.UpdateServiceRequest{Service: svc}); err != nil {
			return 0, err
		}
		for want := int64(watchers) * int64(n+1); received.Load() < want && ctx.Err() == nil; {
			time.Sleep(time.Millisecond)
		}
	}
	return (i.Registry.CPU() - before) / time.Duration(changes), ctx.Err()
}

// follow counts the changes after the snapshot.
func follow(ctx context.Context, client registryv1.ServiceServiceClient, ready chan<- error, received *atomic.Int64) {
	stream, err := client.WatchServices(ctx, &registryv1.WatchServicesRequest{})
	for synced := false; err == nil; {
		var batch *registryv1.WatchServicesResponse
		if batch, err = stream.Recv(); err != nil {
			break
		}
		if synced {
			received.Add(int64(len(batch.GetChanges())))
		} else if batch.GetSynced() {
			synced = true
			ready <- nil
		}
	}
	select {
	case ready <- err:
	default:
	}
}
