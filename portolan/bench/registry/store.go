package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"time"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/portolan/bench/internal/rig"
	"portolan.dev/registry"
	"portolan.dev/registry/program"
	"portolan.dev/registry/store"
	"portolan.dev/services/kit/yardstick"
	"portolan.dev/services/object"
)

// measureStore compares the store alone with pgbench, both with 256 clients.
func (b *bench) measureStore(ctx context.Context) error {
	dsn, err := b.postgres.Database(ctx, "store")
	if err != nil {
		return err
	}
	s, err := program.OpenStore(ctx, registry.Config{Store: dsn}, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	b.rig.Defer(func() { _ = s.Close() })
	data := bytes.Repeat([]byte("x"), payload)
	rounds, d := b.rounds()
	var ours, theirs []float64
	for round := range rounds {
		create := func(ctx context.Context, _ int, n int64) error {
			name := fmt.Sprintf("r%d-%d", round, n)
			_, err := s.Submit(ctx, store.Op{Action: store.Create, Key: object.Key{Kind: "Service", Namespace: "default", Name: name}, UID: name, Data: data})
			return err
		}
		if err := measureAll(round, []competitor{
			{&theirs, func() (float64, error) {
				rate, _, err := b.postgres.pgbench(ctx, 256, d)
				return rate, err
			}},
			{&ours, func() (float64, error) { return clients(ctx, 256, d, create) }},
		}); err != nil {
			return err
		}
	}
	fmt.Printf("\nstore alone, 256 clients: %.0f/s; pgbench %.0f/s\n", rig.Median(ours), rig.Median(theirs))
	b.rig.Ratio("store256_vs_pgbench", rig.Quotient(ours, theirs), yardstick.AtLeast(1.5))
	return nil
}

func headless(n int) iter.Seq[object.Object] {
	return func(yield func(object.Object) bool) {
		for i := range n {
			if !yield(service(fmt.Sprintf("seed-%06d", i), "None")) {
				return
			}
		}
	}
}

// measureWrite compares writes beside 1 000 objects with writes beside 100 000. Each client creates
// and deletes, so that the number stays constant.
func (b *bench) measureWrite(ctx context.Context) error {
	sizes := []int{1_000, 100_000}
	installations := make([]*installation, len(sizes))
	for n, size := range sizes {
		var err error
		if installations[n], err = b.install(ctx, fmt.Sprintf("beside%d", size), headless(size)); err != nil {
			return err
		}
	}
	rounds, d := b.rounds()
	perWrite, cpu, ofRegistry := make([][]float64, len(sizes)), make([][]float64, len(sizes)), make([][]float64, len(sizes))
	// The first round only warms up, while followers read all objects.
	for round := -1; round < 2*rounds; round++ {
		for n, i := range installations {
			registry, postgres := i.Registry.CPU(), b.postgres.CPU()
			rate, err := clients(ctx, 64, d, func(ctx context.Context, _ int, n int64) error {
				return i.createAndDelete(ctx, fmt.Sprintf("r%d-%d", round, n))
			})
			if err != nil {
				return err
			}
			registry, postgres = i.Registry.CPU()-registry, b.postgres.CPU()-postgres
			if round < 0 {
				continue
			}
			perWrite[n] = append(perWrite[n], 1e6/(2*rate))
			cpu[n] = append(cpu[n], float64((registry+postgres).Microseconds())/(2*rate*d.Seconds()))
			ofRegistry[n] = append(ofRegistry[n], float64(registry.Microseconds())/(2*rate*d.Seconds()))
		}
	}
	if b.Profile != "" {
		if err := b.profileWrite(ctx, installations[1]); err != nil {
			return err
		}
	}
	fmt.Println()
	for n, size := range sizes {
		fmt.Printf("a write beside %6d objects, 64 clients: %.0f µs of the clock, %.0f µs of CPU in registry and Postgres, %.0f of them in the registry\n",
			size, rig.Median(perWrite[n]), rig.Median(cpu[n]), rig.Median(ofRegistry[n]))
	}
	fmt.Printf("100k against 1k by the clock: %.2f\n", rig.Quotient(perWrite[1], perWrite[0]))
	b.rig.Ratio("write_at_100k_vs_1k", rig.Quotient(cpu[1], cpu[0]), yardstick.AtMost(1.2))
	for _, i := range installations {
		i.Stop()
	}
	return nil
}

// profileWrite writes a CPU profile of the registry with many objects.
func (b *bench) profileWrite(ctx context.Context, i *installation) error {
	wait := b.StartProfiles(ctx, 6, map[string]*rig.Daemon{"write100k": i.Registry})
	_, err := clients(ctx, 64, 7*time.Second, func(ctx context.Context, _ int, n int64) error {
		return i.createAndDelete(ctx, fmt.Sprintf("profile-%d", n))
	})
	return errors.Join(err, wait())
}

func (i *installation) createAndDelete(ctx context.Context, name string) error {
	if _, err := i.services().CreateService(ctx, &registryv1.CreateServiceRequest{Service: service(name, "None")}); err != nil {
		return err
	}
	_, err := i.services().DeleteService(ctx, &registryv1.DeleteServiceRequest{Name: name})
	return err
}
