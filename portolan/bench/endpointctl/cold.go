package main

import (
	"context"
	"fmt"
	"time"

	"portolan.dev/portolan/bench/internal/rig"
	"portolan.dev/services/kit/yardstick"
)

// profileSeconds is the length of the CPU profiles of a cold start.
const profileSeconds = 10

// measureCold measures the time from the start of endpointctl, on a registry with services and pods
// but without slices, until a follower has seen a complete slice of every service.
func (b *bench) measureCold(ctx context.Context) error {
	services, pods := 10_000, 10
	if b.Quick {
		services = 2_000
	}
	i, err := b.install(ctx, "cold", uniform(services, pods))
	if err != nil {
		return err
	}
	before, began := cpu{registry: i.Registry.CPU(), postgres: b.rig.Postgres.CPU()}, time.Now()
	if err := i.startController(ctx); err != nil {
		return err
	}
	profiled := b.profileDaemons(ctx, "cold", i)
	complete, err := i.waitComplete(ctx)
	if err != nil {
		return err
	}
	used := i.cpu().since(before)
	all, err := i.waitLegacy(ctx)
	if err != nil {
		return err
	}
	total := i.cpu().since(before)
	seconds := complete.Sub(began).Seconds()
	fmt.Printf("\ncold start, %d services of %d pods: slices complete after %.1f s, %.0f slices/s, %s for each service;\nwith their Endpoints after %.1f s, %s for each service\n",
		services, pods, seconds, float64(services)/seconds, used.per(services), all.Sub(began).Seconds(), total.per(services))
	if err := i.printWrites(ctx); err != nil {
		return err
	}
	b.rig.Ratio("cold_seconds", seconds, yardstick.Target{})
	b.rig.Ratio("cold_slices_per_second", float64(services)/seconds, yardstick.Target{})
	err = profiled()
	i.stop()
	return err
}

// waitComplete waits until the follower has seen every pod of every service in a slice. It returns
// the time.
func (i *installation) waitComplete(ctx context.Context) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	want := i.sizes.pods()
	return i.observer.wait(ctx, "slices", func(_, endpoints, _ int) bool { return endpoints == want })
}

// waitLegacy waits until the follower has seen the Endpoints of every service.
func (i *installation) waitLegacy(ctx context.Context) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	return i.observer.wait(ctx, "Endpoints", func(_, _, legacy int) bool { return legacy == len(i.sizes) })
}

// printWrites prints the sizes of the registry's commits.
func (i *installation) printWrites(ctx context.Context) error {
	values, err := i.Registry.Metrics(ctx)
	if err != nil {
		return err
	}
	const commits = "portolan_registry_commit_writes"
	fmt.Printf("registry: %.0f commits, %.1f objects each\n", values[commits+"_count"], values[commits+"_sum"]/values[commits+"_count"])
	return nil
}

// profileDaemons starts CPU profiles of registry and endpointctl. The returned function waits for them.
func (b *bench) profileDaemons(ctx context.Context, name string, i *installation) (wait func() error) {
	return b.StartProfiles(ctx, profileSeconds, map[string]*rig.Daemon{name + "-endpointctl": i.endpointctl, name + "-registry": i.Registry})
}
