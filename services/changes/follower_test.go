package changes_test

import (
	"testing"

	"portolan.dev/services/changes"
	"portolan.dev/services/changes/changestest"
)

func TestFollow(t *testing.T) {
	log := changestest.New(t)
	log.Put(service("a", 1), node("n1"))
	f := log.Follow(changes.FollowerConfig{NATS: log.NATS()})
	log.WaitFor(f)
	log.Put(service("b", 1), service("a", 2))
	log.Delete(serviceKey("b"))
	log.WaitFor(f)
	waitForView(t, log, f)
}

func TestFollowWithoutNATS(t *testing.T) {
	log := changestest.New(t)
	f := log.Follow(fast(changes.FollowerConfig{}))
	log.Put(service("a", 1), node("n1"))
	log.WaitFor(f)
	waitForView(t, log, f)
}
