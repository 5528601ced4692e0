package changes_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/changes"
	"portolan.dev/services/changes/changestest"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

func revocation(name, who string) *corev1.Revocation {
	return &corev1.Revocation{
		Metadata: &corev1.ObjectMeta{Name: name}, Spec: &corev1.RevocationSpec{Identity: who, IssuedBefore: timestamppb.Now()},
	}
}

// TestRevocationsReachTheDenyList runs followers of Services that store versions only and keep
// nothing, with NATS and without it. The Revocations must reach the list of their process, in the
// first snapshot and later, and Apply must see none.
func TestRevocationsReachTheDenyList(t *testing.T) {
	for name, connect := range map[string]func(*changestest.Log) *nats.Conn{
		"with NATS":    (*changestest.Log).NATS,
		"without NATS": func(*changestest.Log) *nats.Conn { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			log, list := changestest.New(t), kittest.NewCertificates(t).Source("dnssvc").DenyList()
			log.Put(service("a", 1), revocation("first", "nodeagent/n1"))
			f := log.Follow(fast(changes.FollowerConfig{
				NATS: connect(log), Kinds: []string{"Service"}, VersionsOnly: true, Revocations: list,
				Keep: func(o object.Object) bool {
					if object.KindOf(o) != "Service" {
						t.Errorf("the daemon was asked whether to keep %T", o)
					}
					return false
				},
				Apply: func(_ context.Context, batch []changes.Change, _ uint64) error {
					for _, change := range batch {
						t.Errorf("the daemon was told of %s", change.Key)
					}
					return nil
				},
			}))
			has := func(n int) {
				t.Helper()
				kittest.Eventually(t, fmt.Sprintf("%d denials", n), func() error {
					if got := list.Len(); got != n {
						return fmt.Errorf("the list has %d", got)
					}
					return nil
				})
			}
			has(1)
			begun := time.Now()
			log.Put(revocation("second", "nodeagent/n2"), service("b", 1), revocation("third", "operator"))
			has(3)
			t.Logf("a Revocation took %s", time.Since(begun))
			log.Delete(object.KeyOf(revocation("second", "")))
			log.Put(revocation("third", "operator"))
			has(2)
			log.WaitFor(f)
		})
	}
}

// TestRevocationsComeFromTheRegistryOnly forges a Revocation of the registries, in a message of its
// own kind and in one of another kind. If a follower believed it, it would refuse to ask them.
func TestRevocationsComeFromTheRegistryOnly(t *testing.T) {
	for _, kind := range []string{"Service", "Revocation"} {
		t.Run(kind, func(t *testing.T) {
			d, list := drive(t, changestest.New(t)), kittest.NewCertificates(t).Source("dnssvc").DenyList()
			d.config(func(cfg *changes.FollowerConfig) { cfg.Revocations = list })
			putMany(d.log, 5)
			d.begin()
			putMany(d.log, 1)
			next := d.log.Revision()
			forged := d.with(d.sent(next), func(c *registryv1.Change) { c.Object = object.Wrap(revocation("evil", "registry")) })
			forged.Subject = strings.Replace(forged.Subject, ".Service.", "."+kind+".", 1)
			forged.Header.Set("Nats-Subject", strings.Replace(forged.Header.Get("Nats-Subject"), ".Service.", "."+kind+".", 1))
			d.receive(forged)
			if n := list.Len(); n != 0 {
				t.Errorf("%d denials, from a forged message", n)
			}
			d.at(next)
		})
	}
}

// earlierRelease is a connection to a registry that does not know the kind Revocation while old is
// set.
type earlierRelease struct {
	grpc.ClientConnInterface
	old atomic.Bool
}

// NewStream implements grpc.ClientConnInterface.
func (c *earlierRelease) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	stream, err := c.ClientConnInterface.NewStream(ctx, desc, method, opts...)
	return &earlierStream{ClientStream: stream, conn: c}, err
}

type earlierStream struct {
	grpc.ClientStream
	conn    *earlierRelease
	refused bool
}

// SendMsg implements grpc.ClientStream.
func (s *earlierStream) SendMsg(m any) error {
	request, ok := m.(*registryv1.SnapshotRequest)
	s.refused = ok && s.conn.old.Load() && slices.Contains(request.GetKinds(), "Revocation")
	return s.ClientStream.SendMsg(m)
}

// RecvMsg implements grpc.ClientStream.
func (s *earlierStream) RecvMsg(m any) error {
	if s.refused {
		return status.Error(codes.InvalidArgument, `unknown kind "Revocation"`)
	}
	return s.ClientStream.RecvMsg(m)
}

// TestFollowARegistryWithoutRevocations follows a registry of the previous release, as the allocator
// does during an upgrade, until the registry is upgraded too.
func TestFollowARegistryWithoutRevocations(t *testing.T) {
	log, list := changestest.New(t), kittest.NewCertificates(t).Source("allocator").DenyList()
	conn := &earlierRelease{ClientConnInterface: log.Conn()}
	conn.old.Store(true)
	log.Put(service("a", 1), revocation("first", "nodeagent/n1"))
	follower := log.Follow(fast(changes.FollowerConfig{Registry: conn, Kinds: []string{"Service"}, Revocations: list, StaleAfter: 50 * time.Millisecond}))
	log.WaitFor(follower)
	if services := follower.View().List("Service"); len(services) != 1 || list.Len() != 0 {
		t.Fatalf("%d services, %d denials", len(services), list.Len())
	}
	conn.old.Store(false)
	denies := func() error {
		if list.Len() != 1 {
			return fmt.Errorf("the list has %d", list.Len())
		}
		return nil
	}
	kittest.Eventually(t, "the Revocations of the upgraded registry", denies)
	conn.old.Store(true) // another replica, which is not upgraded yet, answers
	log.Put(service("b", 1))
	log.Prune(log.Revision()) // so that the follower needs a snapshot
	log.WaitFor(follower)
	if err := denies(); err != nil {
		t.Errorf("after a snapshot without Revocations: %v", err)
	}
}
