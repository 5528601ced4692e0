package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/portolan/bench/internal/rig"
	"portolan.dev/services/kit/yardstick"
	"portolan.dev/services/object"
)

// installation is a registry and an allocator with a database of their own. All clients share its
// connection, as the clients of etcd share one.
type installation struct{ *rig.Installation }

// install starts an installation with objects, or with an empty database if objects is nil.
func (b *bench) install(ctx context.Context, name string, objects iter.Seq[object.Object]) (*installation, error) {
	i, err := b.rig.Install(ctx, name, objects)
	return &installation{i}, err
}

func (i *installation) services() registryv1.ServiceServiceClient {
	return registryv1.NewServiceServiceClient(i.Conn)
}

// description makes a service about as large as the yardsticks' objects.
var description = strings.Repeat("0", 300)

// service returns a service of about the size of the yardsticks' objects. If clusterIP is "None",
// no address is allocated.
func service(name, clusterIP string) *corev1.Service {
	return &corev1.Service{
		Metadata: &corev1.ObjectMeta{
			Name: name, Namespace: "default", Labels: map[string]string{"app": name, "tier": "backend", "team": "payments"},
			Annotations: map[string]string{"description": description},
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
	if b.Quick {
		return 1, 2 * time.Second
	}
	return 3, 5 * time.Second
}

var clientCounts = []int{1, 8, 64, 256}

// rates are the rates at one number of clients, and the CPU times of each operation, one per round.
type rates struct {
	create, pgbench, etcd        []float64
	perCreate, perInsert, perPut costs
}

// parts are the processes that take part in a write of an installation.
func (b *bench) parts(i *installation) parts {
	return parts{{"registry", i.Registry.CPU}, {"allocator", i.Allocator.CPU}, {"postgres", b.postgres.CPU}, {"nats", b.rig.NATS.CPU}, {"clients", yardstick.CPUOfSelf}}
}

// measureCreate compares creates through gRPC, with IP allocation, with pgbench and etcd.
func (b *bench) measureCreate(ctx context.Context) error {
	i, err := b.install(ctx, "creates", nil)
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
				found[c] = &rates{perCreate: costs{}, perInsert: costs{}, perPut: costs{}}
			}
			if err := b.compareCreate(ctx, i, e, found[c], c, round, d); err != nil {
				return err
			}
		}
	}
	fmt.Printf("\ncreate/s, median of %d rounds      clients      create    etcd put     pgbench\n", rounds)
	for _, c := range clientCounts {
		r := found[c]
		fmt.Printf("%41d %11.0f %11.0f %11.0f\n", c, rig.Median(r.create), rig.Median(r.etcd), rig.Median(r.pgbench))
	}
	fmt.Println("CPU per operation, 64 clients:")
	fmt.Println("     create:", found[64].perCreate.line(b.parts(i)))
	fmt.Println("   etcd put:", found[64].perPut.line(e.parts()))
	fmt.Println("    pgbench:", found[64].perInsert.line(b.postgres.parts()))
	b.rig.Ratio("create64_vs_etcd_put", rig.Quotient(found[64].create, found[64].etcd), yardstick.AtLeast(1))
	b.rig.Ratio("create64_vs_pgbench", rig.Quotient(found[64].create, found[64].pgbench), yardstick.AtLeast(0.7))
	if b.Profile != "" {
		return b.profileCreate(ctx, i)
	}
	return nil
}

func (b *bench) compareCreate(ctx context.Context, i *installation, e *etcd, r *rates, c, round int, d time.Duration) error {
	put := e.putter(fmt.Sprintf("r%d-%d", round, c))
	return measureAll(round, []competitor{
		{&r.pgbench, func() (float64, error) {
			rate, perInsert, err := b.postgres.pgbench(ctx, c, d)
			for name, cost := range perInsert {
				r.perInsert[name] = append(r.perInsert[name], cost...)
			}
			return rate, err
		}},
		{&r.create, func() (float64, error) {
			return b.parts(i).measure(ctx, r.perCreate, c, d, i.creator(fmt.Sprintf("r%d-%d", round, c)))
		}},
		{&r.etcd, func() (float64, error) { return e.parts().measure(ctx, r.perPut, c, d, put) }},
	})
}

// measure is clients, and adds the CPU time of each call to costs.
func (p parts) measure(ctx context.Context, perCall costs, count int, d time.Duration, do func(ctx context.Context, client int, n int64) error) (float64, error) {
	before, began := p.used(), time.Now()
	rate, err := clients(ctx, count, d, do)
	perCall.add(p, before, rate*time.Since(began).Seconds())
	return rate, err
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
	perCreate := costs{}
	var rate float64
	err := b.profiled(ctx, i, "", func() (err error) {
		rate, err = b.parts(i).measure(ctx, perCreate, 64, profileFor, i.creator("profile"))
		return err
	})
	if err != nil {
		return err
	}
	fmt.Printf("\nwith profiles, 64 clients: %.0f/s; CPU per create: %s\n", rate, perCreate.line(b.parts(i)))
	return i.printBatches(ctx)
}

// profileFor is the time for which work is done while it is profiled. The profiles begin and end
// within it.
const profileFor = 10 * time.Second

// profiled writes CPU profiles of registry and allocator while do works for profileFor.
func (b *bench) profiled(ctx context.Context, i *installation, suffix string, do func() error) error {
	wait := b.StartProfiles(ctx, 8, map[string]*rig.Daemon{"registry" + suffix: i.Registry, "allocator" + suffix: i.Allocator})
	return errors.Join(do(), wait())
}

// printBatches prints the mean sizes and durations of commits and batches since the start.
func (i *installation) printBatches(ctx context.Context) error {
	for _, histogram := range []struct {
		of   *rig.Daemon
		name string
	}{{i.Registry, "portolan_registry_commit_writes"}, {i.Registry, "portolan_registry_commit_duration_seconds"}, {i.Allocator, "portolan_allocator_batch_seconds"}} {
		values, err := histogram.of.Metrics(ctx)
		if err != nil {
			return err
		}
		fmt.Printf("mean of %s: %.4f\n", histogram.name, values[histogram.name+"_sum"]/values[histogram.name+"_count"])
	}
	return nil
}
