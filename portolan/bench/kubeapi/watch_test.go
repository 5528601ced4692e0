package kubeapi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/portolan/bench/internal/rig"
	"portolan.dev/services/kit/yardstick"
	"portolan.dev/services/object"
)

const (
	watching = 1000 // watchers
	// Changes of a second, and of one call: a call every 10 ms.
	changesPerSecond = 500
	changesPerCall   = 5
)

// measureWatch measures the CPU time of watches in the server's process, beside the cost of the same
// changes without a watch.
func (b *bench) measureWatch(ctx context.Context) error {
	i, err := b.install(ctx)
	if err != nil {
		return err
	}
	defer i.Stop()
	cpu, latency := map[string][]float64{}, map[string][]time.Duration{}
	for range b.rounds {
		alone, err := i.load(ctx, ways[0], 0)
		if err != nil {
			return err
		}
		for _, w := range ways {
			wait := flags.StartProfiles(ctx, loadSeconds, map[string]*rig.Daemon{w.name + "-kubeapi": i.kubeapi, w.name + "-registry": i.Registry})
			run, err := i.load(ctx, w, watching)
			if err := errors.Join(err, wait()); err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			spent := run.kubeapi - alone.kubeapi
			if w.name == "grpc" {
				spent = run.registry - alone.registry
			}
			cpu[w.name] = append(cpu[w.name], micros(spent, run.events*watching))
			latency[w.name] = append(latency[w.name], run.latency...)
			fmt.Printf("%-8s %d watchers, %d changes in %.1f s: %.2f µs of the server's CPU for each event of a watcher; CPU in all: registry %.1f s, kubeapi %.1f s, clients %.1f s\n",
				w.name, watching, run.events, run.took.Seconds(), micros(spent, run.events*watching), run.registry.Seconds(), run.kubeapi.Seconds(), run.clients.Seconds())
		}
	}
	for _, w := range ways {
		slices.Sort(latency[w.name])
		n := len(latency[w.name])
		fmt.Printf("%-8s from the call to the receipt: p50 %.0f ms, p99 %.0f ms\n", w.name, rig.Millis(latency[w.name][n/2]), rig.Millis(latency[w.name][n*99/100]))
	}
	b.rig.Ratio("watch_cpu_json_vs_grpc", rig.Quotient(cpu["json"], cpu["grpc"]), yardstick.AtMost(3))
	b.rig.Ratio("watch_cpu_protobuf_vs_grpc", rig.Quotient(cpu["protobuf"], cpu["grpc"]), yardstick.AtMost(3))
	return nil
}

// loaded has the figures of a load: events, times and CPU time.
type loaded struct {
	events                     int
	took                       time.Duration
	registry, kubeapi, clients time.Duration // CPU
	latency                    []time.Duration
}

// load changes services for some seconds, and waits until all watchers have all changes.
func (i *installation) load(ctx context.Context, w way, count int) (loaded, error) {
	revision, err := i.head(ctx)
	if err != nil {
		return loaded{}, err
	}
	all, err := i.watch(ctx, w, count, revision)
	if err != nil {
		return loaded{}, err
	}
	defer all.close()
	began, registry, kubeapi, clients := time.Now(), i.Registry.CPU(), i.kubeapi.CPU(), yardstick.CPUOfSelf()
	run := loaded{}
	pace := time.NewTicker(time.Second * changesPerCall / changesPerSecond)
	defer pace.Stop()
	for run.events < loadSeconds*changesPerSecond {
		<-pace.C
		if err := i.change(ctx, run.events); err != nil {
			return run, err
		}
		run.events += changesPerCall
	}
	if err := all.await(ctx, int64(run.events*count)); err != nil {
		return run, err
	}
	if _, err := i.head(ctx); err != nil { // kubeapi follows without watchers, too
		return run, err
	}
	run.took, run.registry, run.kubeapi, run.clients = time.Since(began), i.Registry.CPU()-registry, i.kubeapi.CPU()-kubeapi, yardstick.CPUOfSelf()-clients
	all.mu.Lock()
	defer all.mu.Unlock()
	run.latency = all.latency
	return run, nil
}

// loadSeconds is the time of a load, unless the calls take longer.
const loadSeconds = 6

// change changes some services by one call.
func (i *installation) change(ctx context.Context, first int) error {
	request := &registryv1.WriteRequest{Brief: true}
	now := strconv.FormatInt(time.Now().UnixNano(), 10)
	for n := range changesPerCall {
		changed := service((first + n) % services)
		changed.Metadata.Labels[sentLabel] = now
		request.Operations = append(request.Operations, &registryv1.WriteOperation{Write: &registryv1.WriteOperation_Update{Update: object.Wrap(changed)}})
	}
	answer, err := registryv1.NewBulkServiceClient(i.Conn).Write(ctx, request)
	if err != nil {
		return err
	}
	for _, result := range answer.GetResults() {
		if failure := result.GetError(); failure != nil {
			return fmt.Errorf("a change: %s", failure.GetMessage())
		}
	}
	return nil
}

// measureMemory measures the memory of open watches in the server's process, each way at daemons of
// its own, after a collection of garbage.
func (b *bench) measureMemory(ctx context.Context) error {
	perWatch := map[string]float64{}
	for _, w := range ways {
		i, err := b.install(ctx)
		if err != nil {
			return err
		}
		server := i.kubeapi
		if w.name == "grpc" {
			server = i.Registry
		}
		if perWatch[w.name], err = i.memory(ctx, w, server); err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		i.Stop()
	}
	b.rig.Ratio("watch_memory_json_vs_grpc", perWatch["json"]/perWatch["grpc"], yardstick.AtMost(3))
	b.rig.Ratio("watch_memory_protobuf_vs_grpc", perWatch["protobuf"]/perWatch["grpc"], yardstick.AtMost(3))
	return nil
}

// memory returns the bytes of heap and stacks of one of many watches after a load.
func (i *installation) memory(ctx context.Context, w way, server *rig.Daemon) (float64, error) {
	if _, err := i.load(ctx, w, 1); err != nil { // the first watch allocates memory that later ones share
		return 0, err
	}
	before, err := live(ctx, server)
	if err != nil {
		return 0, err
	}
	revision, err := i.head(ctx)
	if err != nil {
		return 0, err
	}
	all, err := i.watch(ctx, w, watching, revision)
	if err != nil {
		return 0, err
	}
	defer all.close()
	for n := range changesPerSecond / changesPerCall {
		if err := i.change(ctx, n*changesPerCall); err != nil {
			return 0, err
		}
	}
	if err := all.await(ctx, changesPerSecond*watching); err != nil {
		return 0, err
	}
	after, err := live(ctx, server)
	each := (after - before) / watching
	fmt.Printf("%-8s memory of a watch: %.1f KB; the server has %d MB\n", w.name, each/1000, residentMegabytes(server))
	return each, err
}

// live returns the bytes of heap and stacks in use, without garbage.
func live(ctx context.Context, d *rig.Daemon) (float64, error) {
	if err := d.Collect(ctx); err != nil {
		return 0, err
	}
	values, err := d.Metrics(ctx)
	return values["go_memstats_heap_alloc_bytes"] + values["go_memstats_stack_inuse_bytes"], err
}

func residentMegabytes(d *rig.Daemon) int { return int(d.Resident() >> 20) }
