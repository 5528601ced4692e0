package main

import (
	"context"
	"fmt"
	"time"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/kit/yardstick"
	"portolan.dev/services/object"
)

// bulkSize is the number of objects in a bulk call, the most that are allowed.
const bulkSize = 1000

// measureBulk compares services that are applied 1000 at a time with services that are applied one
// by one: by one client, as a loop over manifests does, and by 64 clients at once, whose writes share
// commits. The figure is the CPU time of registry, allocator, Postgres and client. NATS does the
// same work in both cases.
func (b *bench) measureBulk(ctx context.Context) error {
	i, err := b.install(ctx, "bulk", nil)
	if err != nil {
		return err
	}
	rounds, d := b.rounds()
	single, concurrent, bulk := costs{}, costs{}, costs{}
	for round := range rounds {
		if err := i.compareBulk(ctx, b.parts(i), round, d, single, concurrent, bulk); err != nil {
			return err
		}
	}
	for name := range bulk {
		for n := range bulk[name] {
			bulk[name][n] /= bulkSize
		}
	}
	fmt.Println("\nCPU per applied service:")
	fmt.Println("  one by one:", single.line(b.parts(i)))
	fmt.Println("  64 clients:", concurrent.line(b.parts(i)))
	fmt.Println("  1000 a call:", bulk.line(b.parts(i)))
	b.rig.Ratio("apply1000_vs_single", single.total("nats")/bulk.total("nats"), yardstick.AtLeast(5))
	b.rig.Ratio("apply1000_vs_64_clients", concurrent.total("nats")/bulk.total("nats"), yardstick.Target{})
	if b.Profile != "" {
		err = b.profiled(ctx, i, "-bulk", func() error {
			_, err := clients(ctx, 1, profileFor, func(ctx context.Context, _ int, n int64) error { return i.applyMany(ctx, fmt.Sprintf("profile%d", n)) })
			return err
		})
	}
	i.Stop()
	return err
}

// compareBulk measures the three ways in turns.
func (i *installation) compareBulk(ctx context.Context, p parts, round int, d time.Duration, single, concurrent, bulk costs) error {
	var none []float64
	apply := func(prefix string) func(context.Context, int, int64) error {
		return func(ctx context.Context, _ int, n int64) error {
			_, err := registryv1.NewApplyServiceClient(i.Conn).Apply(ctx, &registryv1.ApplyRequest{Object: object.Wrap(service(fmt.Sprintf("%s%d-%d", prefix, round, n), ""))})
			return err
		}
	}
	return measureAll(round, []competitor{
		{&none, func() (float64, error) { return p.measure(ctx, single, 1, d, apply("single")) }},
		{&none, func() (float64, error) { return p.measure(ctx, concurrent, 64, d, apply("concurrent")) }},
		{&none, func() (float64, error) {
			return p.measure(ctx, bulk, 1, d, func(ctx context.Context, _ int, n int64) error {
				return i.applyMany(ctx, fmt.Sprintf("bulk%d-%d", round, n))
			})
		}},
	})
}

// applyMany applies many new services by one call.
func (i *installation) applyMany(ctx context.Context, prefix string) error {
	request := &registryv1.WriteRequest{Brief: true}
	for n := range bulkSize {
		request.Operations = append(request.Operations, &registryv1.WriteOperation{Write: &registryv1.WriteOperation_Apply{
			Apply: object.Wrap(service(fmt.Sprintf("%s-%d", prefix, n), "")),
		}})
	}
	answer, err := registryv1.NewBulkServiceClient(i.Conn).Write(ctx, request)
	if err != nil {
		return err
	}
	for _, result := range answer.GetResults() {
		if failure := result.GetError(); failure != nil {
			return fmt.Errorf("a service of a bulk call: %s", failure.GetMessage())
		}
	}
	return nil
}
