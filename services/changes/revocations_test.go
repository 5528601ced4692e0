package changes_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
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
