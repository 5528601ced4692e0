package main

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/registry"
	"portolan.dev/registry/program"
	"portolan.dev/registry/store"
	"portolan.dev/services/kit/rpc"
	"portolan.dev/services/object"

	"portolan.dev/portolan/bench/internal/rig"
)

// quietTime is endpointctl's -quiet, for which it deliberately waits for further changes of a
// service.
const quietTime = 20 * time.Millisecond

// installation is a registry and an allocator with a database of their own, and an observer. The
// controller is started separately.
type installation struct {
	bench                            *bench
	name                             string
	sizes                            sizes
	registry, allocator, endpointctl *rig.Daemon
	conn                             *grpc.ClientConn
	observer                         *observer
}

// install fills a database with objects and starts registry and allocator on it. Each installation
// has its own prefix of NATS subjects.
func (b *bench) install(ctx context.Context, name string, n sizes) (*installation, error) {
	i := &installation{bench: b, name: name, sizes: n}
	dsn, err := b.seed(ctx, name, n)
	if err != nil {
		return nil, err
	}
	registryAddr, err := rig.FreeAddr()
	if err != nil {
		return nil, err
	}
	common := []string{"-nats-prefix", name, "-service-cidr", serviceCIDR}
	if i.allocator, err = b.rig.StartDaemon(ctx, "allocator", append(common, "-data-dir", filepath.Join(b.rig.Dir, name+"-allocator"), "-registry", registryAddr)...); err != nil {
		return nil, err
	}
	if i.registry, err = b.rig.StartDaemon(ctx, "registry", append(common, "-store", dsn, "-allocator", i.allocator.Addr, "-addr", registryAddr)...); err != nil {
		return nil, err
	}
	if i.conn, err = rpc.TCP().Dial(i.registry.Addr); err != nil {
		return nil, err
	}
	b.rig.Defer(func() { _ = i.conn.Close() })
	i.observer, err = observe(ctx, i)
	return i, err
}

// startController starts endpointctl. Nodes do not expire, because no agent runs.
func (i *installation) startController(ctx context.Context) (err error) {
	i.endpointctl, err = i.bench.rig.StartDaemon(ctx, "endpointctl", "-nats-prefix", i.name, "-registry", i.registry.Addr, "-node-grace", "0s", "-quiet", quietTime.String())
	return err
}

// stop ends the daemons, so that they do not use the CPU while other parts are measured.
func (i *installation) stop() {
	i.observer.stop()
	for _, d := range []*rig.Daemon{i.endpointctl, i.registry, i.allocator} {
		d.Stop()
	}
}

func (i *installation) pods() registryv1.PodServiceClient {
	return registryv1.NewPodServiceClient(i.conn)
}

// cpu is the CPU time of the processes that work for endpoints.
type cpu struct{ endpointctl, registry, postgres time.Duration }

func (i *installation) cpu() cpu {
	return cpu{i.endpointctl.CPU(), i.registry.CPU(), i.bench.rig.Postgres.CPU()}
}

func (c cpu) since(before cpu) cpu {
	return cpu{c.endpointctl - before.endpointctl, c.registry - before.registry, c.postgres - before.postgres}
}

// per returns the CPU time of one of n pieces of work.
func (c cpu) per(n int) string {
	each := func(d time.Duration) string { return fmt.Sprintf("%.2f ms", float64(d.Microseconds())/1000/float64(n)) }
	return fmt.Sprintf("endpointctl %s, registry %s, Postgres %s", each(c.endpointctl), each(c.registry), each(c.postgres))
}

// seed fills a database with objects before a registry runs on it. It returns the database's DSN.
func (b *bench) seed(ctx context.Context, name string, n sizes) (string, error) {
	dsn, err := b.rig.Postgres.Database(ctx, name)
	if err != nil {
		return "", err
	}
	s, err := program.OpenStore(ctx, registry.Config{Store: dsn}, slog.New(slog.DiscardHandler))
	if err != nil {
		return "", err
	}
	defer s.Close()
	count := uint64(nodes + len(n) + n.pods())
	var revision uint64
	err = s.Restore(ctx, 0, count, func(yield func(store.Row, error) bool) {
		for o := range objects(n) {
			revision++
			row, err := row(o, revision)
			if !yield(row, err) {
				return
			}
		}
	})
	if err != nil {
		return "", err
	}
	return dsn, b.rig.Postgres.Tidy(ctx, name)
}

// row returns an object as it is stored, with the metadata that the registry sets.
func row(o object.Object, revision uint64) (store.Row, error) {
	meta := o.GetMetadata()
	meta.Uid, meta.Generation, meta.CreationTimestamp = fmt.Sprintf("uid-%d", revision), 1, timestamppb.Now()
	data, err := store.Encode(o)
	return store.Row{Key: object.KeyOf(o), UID: meta.GetUid(), Revision: revision, Data: data}, err
}
