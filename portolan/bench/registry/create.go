package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/kit/rpc"
	"portolan.dev/services/kit/yardstick"
)

// serviceCIDR has room for every service of a run.
const serviceCIDR = "10.64.0.0/10"

// installation is a registry and an allocator with a database of their own.
type installation struct {
	registry, allocator *daemon
	conn                *grpc.ClientConn // shared by all clients, as the clients of etcd share one
}

// install starts an installation. Each has its own prefix of NATS subjects, so that several in one
// run do not interfere.
func (b *bench) install(ctx context.Context, name, dsn string) (*installation, error) {
	addrs, err := freeAddrs(1)
	if err != nil {
		return nil, err
	}
	allocator, err := b.startDaemon(ctx, "allocator", "-nats-prefix", name, "-service-cidr", serviceCIDR, "-data-dir", filepath.Join(b.dir, name+"-allocator"), "-registry", addrs[0])
	if err != nil {
		return nil, err
	}
	b.deferCleanup(allocator.stop)
	registry, err := b.startDaemon(ctx, "registry", "-nats-prefix", name, "-service-cidr", serviceCIDR, "-store", dsn, "-allocator", allocator.addr, "-addr", addrs[0])
	if err != nil {
		return nil, err
	}
	b.deferCleanup(registry.stop)
	i := &installation{registry: registry, allocator: allocator}
	if i.conn, err = rpc.TCP().Dial(registry.addr); err != nil {
		return nil, err
	}
	b.deferCleanup(func() { _ = i.conn.Close() })
	return i, nil
}

func (i *installation) services() registryv1.ServiceServiceClient {
	return registryv1.NewServiceServiceClient(i.conn)
}

// service returns a service of about the size of the yardsticks' objects. If clusterIP is "None",
// no address is allocated.
func service(name, clusterIP string) *corev1.Service {
	return &corev1.Service{
		Metadata: &corev1.ObjectMeta{
			Name: name, Namespace: "default", Labels: map[string]string{"app": name, "tier": "backend", "team": "payments"},
			Annotations: map[string]string{"description": fmt.Sprintf("%0300d", 0)},
		},
		Spec: &corev1.ServiceSpec{
			ClusterIp: clusterIP, Selector: map[string]string{"app": name},
			Ports: []*corev1.ServicePort{{Name: "http", Port: 80}, {Name: "metrics", Port: 9090}},
		},
	}
}

// clients calls do from count clients for the time d, and returns calls per second. n counts the
// calls of all clients.
func clients(ctx context.Context, count int, d time.Duration, do func(ctx context.Context, client int, n int64) error) (float64, error) {
	var n, done atomic.Int64
	var wg sync.WaitGroup
	errs := make(chan error, count)
	began := time.Now()
	for client := range count {
		wg.Go(func() {
			for time.Since(began) < d && ctx.Err() == nil {
				if err := do(ctx, client, n.Add(1)); err != nil {
					errs <- err
					return
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	took := time.Since(began)
	select {
	case err := <-errs:
		return 0, err
	default:
		return float64(done.Load()) / took.Seconds(), ctx.Err()
	}
}

func (b *bench) rounds() (int, time.Duration) {
	if b.quick {
		return 1, 2 * time.Second
	}
	return 3, 5 * time.Second
}

var clientCounts = []int{1, 8, 64, 256}

// rates are the rates at one number of clients, one per round.
type rates struct{ create, pgbench, etcd []float64 }

// measureCreate compares creates through gRPC, with IP allocation, with pgbench and etcd.
func (b *bench) measureCreate(ctx context.Context) error {
	dsn, err := b.postgres.database(ctx, "creates")
	if err != nil {
		return err
	}
	i, err := b.install(ctx, "creates", dsn)
	if err != nil {
		return err
	}
	e, err := b.startEtcd(ctx)
	if err != nil {
		return err
	}
	found := map[int]*rates{}
	rounds, d := b.rounds()
	for round := range rounds {
		for _, c := range clientCounts {
			if found[c] == nil {
				found[c] = &rates{}
			}
			if err := b.compareCreate(ctx, i, e, found[c], c, round, d); err != nil {
				return err
			}
		}
	}
	fmt.Printf("\ncreate/s, median of %d rounds      clients      create    etcd put     pgbench\n", rounds)
	for _, c := range clientCounts {
		r := found[c]
		fmt.Printf("%41d %11.0f %11.0f %11.0f\n", c, median(r.create), median(r.etcd), median(r.pgbench))
	}
	b.ratio("create64_vs_etcd_put", quotient(found[64].create, found[64].etcd), yardstick.AtLeast(1))
	b.ratio("create64_vs_pgbench", quotient(found[64].create, found[64].pgbench), yardstick.AtLeast(0.8))
	if b.profile != "" {
		return b.profileCreate(ctx, i)
	}
	return nil
}

func (b *bench) compareCreate(ctx context.Context, i *installation, e *etcd, r *rates, c, round int, d time.Duration) error {
	return measureAll(round, []competitor{
		{&r.pgbench, func() (float64, error) { return b.postgres.pgbench(ctx, c, d) }},
		{&r.create, func() (float64, error) { return clients(ctx, c, d, i.creator(fmt.Sprintf("r%d-%d", round, c))) }},
		{&r.etcd, func() (float64, error) {
			return clients(ctx, c, d, func(ctx context.Context, _ int, n int64) error {
				return e.put(ctx, fmt.Sprintf("r%d-%d-%d", round, c, n))
			})
		}},
	})
}

// competitor is one of the compared systems.
type competitor struct {
	rates   *[]float64 // one per round
	measure func() (float64, error)
}

// measureAll measures all contestants. Each round starts with another one, because the first
// measurement finds the disk idle.
func measureAll(round int, all []competitor) error {
	for n := range all {
		one := all[(round+n)%len(all)]
		rate, err := one.measure()
		if err != nil {
			return err
		}
		*one.rates = append(*one.rates, rate)
	}
	return nil
}

func (i *installation) creator(prefix string) func(context.Context, int, int64) error {
	return func(ctx context.Context, _ int, n int64) error {
		_, err := i.services().CreateService(ctx, &registryv1.CreateServiceRequest{Service: service(fmt.Sprintf("%s-%d", prefix, n), "")})
		return err
	}
}

// profileCreate writes CPU profiles of creates by 64 clients.
func (b *bench) profileCreate(ctx context.Context, i *installation) error {
	var wg sync.WaitGroup
	errs := make(chan error, 2)
	before := []time.Duration{i.registry.cpu(), i.allocator.cpu(), b.postgres.cpu(), cpuOfSelf()}
	for name, d := range map[string]*daemon{"registry": i.registry, "allocator": i.allocator} {
		wg.Go(func() {
			errs <- save(ctx, "http://"+d.http+"/debug/pprof/profile?seconds=8", filepath.Join(b.profile, name+".pprof"))
		})
	}
	rate, err := clients(ctx, 64, 10*time.Second, i.creator("profile"))
	wg.Wait()
	after := []time.Duration{i.registry.cpu(), i.allocator.cpu(), b.postgres.cpu(), cpuOfSelf()}
	fmt.Printf("\nwith profiles, 64 clients: %.0f/s; CPU per create:\n", rate)
	for n, who := range []string{"registry", "allocator", "postgres", "clients and nats"} {
		fmt.Printf("%20s %.0f µs\n", who, float64((after[n]-before[n]).Microseconds())/(rate*10))
	}
	if err := i.printBatches(ctx); err != nil {
		return err
	}
	if err != nil {
		return err
	}
	return errors.Join(<-errs, <-errs)
}

// printBatches prints the mean sizes and durations of commits and batches since the start.
func (i *installation) printBatches(ctx context.Context) error {
	for _, histogram := range []struct {
		of   *daemon
		name string
	}{{i.registry, "portolan_registry_commit_writes"}, {i.registry, "portolan_registry_commit_duration_seconds"}, {i.allocator, "portolan_allocator_batch_seconds"}} {
		mean, err := histogram.of.mean(ctx, histogram.name)
		if err != nil {
			return err
		}
		fmt.Printf("mean of %s: %.4f\n", histogram.name, mean)
	}
	return nil
}

func save(ctx context.Context, url, path string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o644)
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// quotient returns the median of the quotients of each round.
func quotient(ours, theirs []float64) float64 {
	quotients := make([]float64, len(ours))
	for i := range ours {
		quotients[i] = ours[i] / theirs[i]
	}
	return median(quotients)
}
