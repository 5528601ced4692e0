package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"time"

	"portolan.dev/portolan/bench/internal/account"
	"portolan.dev/portolan/bench/internal/rig"
	"portolan.dev/services/kit/app"
)

// profiler writes the CPU profile of the next seconds of a process.
type profiler func(ctx context.Context, seconds int) ([]byte, error)

// measureAccount divides the CPU time of a create, and of a put of etcd, among kinds of work. Each
// process has a column, which adds up to the CPU time that the process used.
func (b *bench) measureAccount(ctx context.Context) error {
	i, err := b.install(ctx, "account", nil)
	if err != nil {
		return err
	}
	e, err := b.startEtcd(ctx)
	if err != nil {
		return err
	}
	allocated := i.allocated(ctx)
	creates, err := b.accountOf(ctx, "create", b.parts(i), i.creator, map[string]profiler{
		"registry": serves(i.Registry.Debug), "allocator": serves(i.Allocator.Debug), "nats": serves(b.rig.NATS.Debug), "clients": profileSelf,
	})
	if err != nil {
		return err
	}
	puts, err := b.accountOf(ctx, "put", e.parts(), e.putter, map[string]profiler{"etcd": serves(e.addr), "clients": profileSelf})
	if err != nil {
		return err
	}
	puts[1].Name = "etcd's clients"
	fmt.Println("\nCPU per create and per put, 64 clients:")
	fmt.Print(account.Table(kindNames(), append(creates, puts...)))
	return errors.Join(allocated(), i.printBatches(ctx))
}

// allocated returns a function that prints the memory that registry and allocator have allocated for
// each create since. Unlike CPU time it does not depend on the load of the machine.
func (i *installation) allocated(ctx context.Context) func() error {
	type state struct{ creates, bytes, objects float64 }
	read := func(d *rig.Daemon) (state, error) {
		of, err := d.Metrics(ctx)
		committed, errCommitted := i.Registry.Metrics(ctx)
		return state{committed["portolan_registry_commit_writes_sum"], of["go_memstats_alloc_bytes_total"], of["go_memstats_mallocs_total"]}, errors.Join(err, errCommitted)
	}
	daemons := []*rig.Daemon{i.Registry, i.Allocator}
	before := make([]state, len(daemons))
	var err error
	for n, d := range daemons {
		var failed error
		before[n], failed = read(d)
		err = errors.Join(err, failed)
	}
	return func() error {
		for n, name := range []string{"registry", "allocator"} {
			now, failed := read(daemons[n])
			if err = errors.Join(err, failed); err != nil {
				return err
			}
			creates := now.creates - before[n].creates
			fmt.Printf("memory allocated by the %s per create: %.1f KB in %.0f objects\n", name, (now.bytes-before[n].bytes)/creates/1000, (now.objects-before[n].objects)/creates)
		}
		return nil
	}
}

// serves returns the profiler of a process that serves profiles at an address.
func serves(addr string) profiler {
	return func(ctx context.Context, seconds int) ([]byte, error) { return rig.Profile(ctx, addr, seconds) }
}

// profileSelf profiles this process.
func profileSelf(ctx context.Context, seconds int) ([]byte, error) {
	var b bytes.Buffer
	if err := pprof.StartCPUProfile(&b); err != nil {
		return nil, err
	}
	app.Pause(ctx, time.Duration(seconds)*time.Second)
	pprof.StopCPUProfile()
	return b.Bytes(), ctx.Err()
}

// worker returns the work of clients. The names of the objects begin with the prefix.
type worker func(prefix string) func(ctx context.Context, client int, n int64) error

// accountOf makes 64 clients work, and returns a column for each part. Those without a profiler are
// divided by the time in the program and in the kernel.
func (b *bench) accountOf(ctx context.Context, operation string, p parts, work worker, profilers map[string]profiler) ([]account.Column, error) {
	seconds := 20
	if b.Quick {
		seconds = 8
	}
	if _, err := clients(ctx, 64, 2*time.Second, work("warm-up")); err != nil {
		return nil, err
	}
	shares, wait := b.startProfiles(ctx, operation, seconds, profilers)
	spent := costs{}
	user, system := b.postgres.CPUTimes()
	_, err := p.measure(ctx, spent, 64, time.Duration(seconds+1)*time.Second, work("measured"))
	userThen, systemThen := b.postgres.CPUTimes()
	if err := errors.Join(err, wait()); err != nil {
		return nil, err
	}
	columns := make([]account.Column, len(p))
	for n, part := range p {
		if profilers[part.name] == nil {
			inKernel := float64(systemThen-system) / float64(userThen-user+systemThen-system)
			shares[part.name] = account.Shares{kindStatements: 1 - inKernel, kindStatementsInKernel: inKernel}
		}
		columns[n] = account.NewColumn(part.name, rig.Median(spent[part.name]), shares[part.name])
	}
	return columns, nil
}

// startProfiles profiles processes for some seconds. The shares are complete once the returned function
// has returned.
func (b *bench) startProfiles(ctx context.Context, operation string, seconds int, profilers map[string]profiler) (shares map[string]account.Shares, wait func() error) {
	type result struct {
		of     string
		shares account.Shares
		err    error
	}
	results := make(chan result, len(profilers))
	for of, profile := range profilers {
		go func() {
			data, err := profile(ctx, seconds)
			r := result{of: of, err: errors.Join(err, b.saveProfile(operation+"-"+of, data))}
			if r.err == nil {
				r.shares, r.err = account.Divide(data, kinds)
			}
			results <- r
		}()
	}
	shares = map[string]account.Shares{}
	return shares, func() (err error) {
		for range profilers {
			r := <-results
			shares[r.of] = r.shares
			err = errors.Join(err, r.err)
		}
		return err
	}
}

// saveProfile writes a profile to the folder for profiles, if there is one.
func (b *bench) saveProfile(name string, data []byte) error {
	if b.Profile == "" {
		return nil
	}
	return os.WriteFile(filepath.Join(b.Profile, name+".pprof"), data, 0o600)
}
