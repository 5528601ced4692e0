package rig

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"path/filepath"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/registry"
	"portolan.dev/registry/program"
	"portolan.dev/registry/store"
	"portolan.dev/services/kit/rpc"
	"portolan.dev/services/object"
)

// ServiceCIDR is the range of virtual IPs of every installation. It has room for every service of a run.
const ServiceCIDR = "10.64.0.0/10"

// Installation is a registry and an allocator with a database of their own.
type Installation struct {
	Registry, Allocator *Daemon
	// Conn is a connection to the registry.
	Conn *grpc.ClientConn
	// Name is the name of the database, and the prefix of the NATS subjects.
	Name string

	rig       *Rig
	followers []*Daemon
}

// Install starts an installation on a database with the given objects. If objects is nil, the database is
// empty. The name must be new. Several installations in one run do not interfere, because each has
// its own prefix of NATS subjects.
func (r *Rig) Install(ctx context.Context, name string, objects iter.Seq[object.Object]) (*Installation, error) {
	dsn, err := r.Postgres.Database(ctx, name)
	if err != nil {
		return nil, err
	}
	if objects != nil {
		if err := r.fill(ctx, name, dsn, objects); err != nil {
			return nil, err
		}
	}
	addr, err := FreeAddr()
	if err != nil {
		return nil, err
	}
	i := &Installation{Name: name, rig: r}
	common := []string{"-nats-prefix", name, "-service-cidr", ServiceCIDR}
	if i.Allocator, err = r.StartDaemon(ctx, "allocator", append(common, "-data-dir", filepath.Join(r.Dir, name+"-allocator"), "-registry", addr)...); err != nil {
		return nil, err
	}
	if i.Registry, err = r.StartDaemon(ctx, "registry", append(common, "-store", dsn, "-allocator", i.Allocator.Addr, "-addr", addr)...); err != nil {
		return nil, err
	}
	if i.Conn, err = rpc.TCP().Dial(i.Registry.Addr); err != nil {
		return nil, err
	}
	r.Defer(func() { _ = i.Conn.Close() })
	return i, nil
}

// StartFollower starts another daemon of the installation, which follows the registry.
func (i *Installation) StartFollower(ctx context.Context, name string, args ...string) (*Daemon, error) {
	d, err := i.rig.StartDaemon(ctx, name, append([]string{"-nats-prefix", i.Name, "-registry", i.Registry.Addr}, args...)...)
	if err == nil {
		i.followers = append(i.followers, d)
	}
	return d, err
}

// Stop ends all daemons of the installation, so that they do not use the CPU while others are measured.
func (i *Installation) Stop() {
	for _, d := range append(i.followers, i.Registry, i.Allocator) {
		d.Stop()
	}
}

// fill writes objects into an empty database before a registry runs on it.
func (r *Rig) fill(ctx context.Context, name, dsn string, objects iter.Seq[object.Object]) error {
	s, err := program.OpenStore(ctx, registry.Config{Store: dsn}, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer s.Close()
	const newest = 1_000_000 // revision, more than there are objects
	var revision uint64
	err = s.Restore(ctx, 0, newest, func(yield func(store.Row, error) bool) {
		for o := range objects {
			revision++
			SetIdentity(o.GetMetadata(), revision)
			data, err := store.Encode(o)
			if !yield(store.Row{Key: object.KeyOf(o), UID: o.GetMetadata().GetUid(), Revision: revision, Data: data}, err) {
				return
			}
		}
	})
	return errors.Join(err, r.Postgres.Tidy(ctx, name))
}

// SetIdentity sets the metadata that the registry sets on an object that it creates.
func SetIdentity(meta *corev1.ObjectMeta, revision uint64) {
	meta.Uid, meta.Generation, meta.CreationTimestamp = fmt.Sprintf("uid-%d", revision), 1, timestamppb.Now()
}
