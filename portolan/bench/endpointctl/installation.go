package main

import (
	"context"
	"fmt"
	"time"

	registryv1 "portolan.dev/api/registry/v1"

	"portolan.dev/portolan/bench/internal/rig"
)

// quietTime is endpointctl's -quiet, for which it deliberately waits for further changes of a
// service.
const quietTime = 20 * time.Millisecond

// installation is a registry and an allocator with a database of their own, and an observer. The
// controller is started separately.
type installation struct {
	*rig.Installation
	rig         *rig.Rig
	sizes       sizes
	endpointctl *rig.Daemon
	observer    *observer
}

// install starts an installation with nodes, services and pods.
func (b *bench) install(ctx context.Context, name string, n sizes) (*installation, error) {
	installed, err := b.rig.Install(ctx, name, objects(n))
	if err != nil {
		return nil, err
	}
	i := &installation{Installation: installed, rig: b.rig, sizes: n}
	i.observer, err = observe(ctx, i)
	return i, err
}

// startController starts endpointctl. Nodes do not expire, because no agent runs.
func (i *installation) startController(ctx context.Context) (err error) {
	i.endpointctl, err = i.StartFollower(ctx, "endpointctl", "-node-grace", "0s", "-quiet", quietTime.String())
	return err
}

// stop ends the observer and the daemons.
func (i *installation) stop() {
	i.observer.stop()
	i.Stop()
}

func (i *installation) pods() registryv1.PodServiceClient {
	return registryv1.NewPodServiceClient(i.Conn)
}

// cpu is the CPU time of the processes that work for endpoints.
type cpu struct{ endpointctl, registry, postgres time.Duration }

func (i *installation) cpu() cpu {
	return cpu{i.endpointctl.CPU(), i.Registry.CPU(), i.rig.Postgres.CPU()}
}

func (c cpu) since(before cpu) cpu {
	return cpu{c.endpointctl - before.endpointctl, c.registry - before.registry, c.postgres - before.postgres}
}

// per returns the CPU time of one of n pieces of work.
func (c cpu) per(n int) string {
	each := func(d time.Duration) string { return fmt.Sprintf("%.2f ms", float64(d.Microseconds())/1000/float64(n)) }
	return fmt.Sprintf("endpointctl %s, registry %s, Postgres %s", each(c.endpointctl), each(c.registry), each(c.postgres))
}
