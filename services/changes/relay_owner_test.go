package changes_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"portolan.dev/services/changes"
	"portolan.dev/services/changes/changestest"
	"portolan.dev/services/kit/health"
	"portolan.dev/services/kit/kittest"
)

// party is a relay of an installation.
type party struct {
	log     *changestest.Log
	health  *health.Registry
	metrics *prometheus.Registry
	stop    func()
}

// runParty runs a relay of a log of its own until the test ends or stop is called.
func runParty(t *testing.T, url, installation string, changesBefore int) *party {
	t.Helper()
	p := &party{log: changestest.New(t), health: health.New(kittest.Logger(t)), metrics: prometheus.NewRegistry()}
	p.log.SetInstallation(installation)
	putMany(p.log, changesBefore)
	p.stop = kittest.Run(t, "relay of "+installation, relayOf(t, p.log, url, func(cfg *changes.RelayConfig) {
		cfg.Health, cfg.Metrics = p.health, p.metrics
	}).Run)
	return p
}

// rebuilds returns how often a party has made the stream.
func (p *party) rebuilds(t *testing.T) int {
	t.Helper()
	families, err := p.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "portolan_changes_relay_rebuilds_total" {
			return int(family.GetMetric()[0].GetCounter().GetValue())
		}
	}
	t.Fatal("there is no metric of rebuilds")
	return 0
}

// awaitWarning waits until a party warns with a text that has all the words.
func (p *party) awaitWarning(t *testing.T, words ...string) {
	t.Helper()
	kittest.Eventually(t, "a warning", func() error {
		warnings := strings.Join(p.health.Warnings(), "\n")
		for _, word := range words {
			if !strings.Contains(warnings, word) {
				return fmt.Errorf("%q is not in the warnings %q", word, warnings)
			}
		}
		return nil
	})
}

// TestTwoInstallationsOnOnePrefix checks that a relay leaves the stream of another installation alone and
// names both installations and the remedies. The first installation must not notice the second one.
func TestTwoInstallationsOnOnePrefix(t *testing.T) {
	_, url := kittest.NATS(t)
	js := jetStream(t, url)
	first := runParty(t, url, "first", 7)
	waitForStreamAt(t, js, first.log, 7)
	follower := first.log.Follow(fast(changes.FollowerConfig{NATS: impatient(t, url)}))
	first.log.WaitFor(follower)

	second := runParty(t, url, "second", 3) // as a backup of an earlier time
	second.awaitWarning(t, "change stream: ", `prefix "test"`, "first", "second", "-nats-prefix", "registry installation -set first")
	putMany(first.log, 20)
	waitForStreamAt(t, js, first.log, 27)
	compareStream(t, js, first.log)
	waitForView(t, first.log, follower)
	if a, b := first.rebuilds(t), second.rebuilds(t); a != 1 || b != 0 {
		t.Errorf("the first made the stream %d times, the second %d times", a, b)
	}
	if warnings := first.health.Warnings(); len(warnings) > 0 {
		t.Errorf("the first warns: %q", warnings)
	}

	// While its owner is away, the stream may be lost.
	first.stop()
	if err := js.DeleteStream(t.Context(), changestest.Stream); err != nil {
		t.Fatal(err)
	}
	second.awaitWarning(t, "is gone")
	if _, err := js.Stream(t.Context(), changestest.Stream); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("the second has taken the place of the first: %v", err)
	}
}

// TestAnotherStoreTakesThePlace checks that a relay takes over the stream once its log has the identity of
// the stream's installation.
func TestAnotherStoreTakesThePlace(t *testing.T) {
	_, url := kittest.NATS(t)
	js := jetStream(t, url)
	first := runParty(t, url, "first", 7)
	waitForStreamAt(t, js, first.log, 7)
	first.stop()
	restored := runParty(t, url, "second", 3)
	restored.awaitWarning(t, "registry installation -set first")
	restored.log.SetInstallation("first")
	waitForStreamAt(t, js, restored.log, 3)
	kittest.Eventually(t, "the end of the warning", func() error {
		if warnings := restored.health.Warnings(); len(warnings) > 0 {
			return errors.New(strings.Join(warnings, "\n"))
		}
		return nil
	})
}

// TestStreamOfAnEarlierRelease checks that a relay makes a stream anew that names no installation. Otherwise
// a registry of another installation would take it for its own.
func TestStreamOfAnEarlierRelease(t *testing.T) {
	_, url := kittest.NATS(t)
	js := jetStream(t, url)
	if err := foreignStream(t, js, "epoch-1", 0); err != nil {
		t.Fatal(err)
	}
	runParty(t, url, "first", 0)
	kittest.Eventually(t, "the identity in the stream", func() error {
		stream, err := js.Stream(t.Context(), changestest.Stream)
		if err == nil && stream.CachedInfo().Config.Metadata["installation"] != "first" {
			err = fmt.Errorf("metadata %v", stream.CachedInfo().Config.Metadata)
		}
		return err
	})
}

// TestCopyOfTheStore checks that two relays with copies of one store, which have one identity, name the
// reason, and do not replace each other's stream several times a second.
func TestCopyOfTheStore(t *testing.T) {
	_, url := kittest.NATS(t)
	js := jetStream(t, url)
	original := runParty(t, url, "first", 7)
	waitForStreamAt(t, js, original.log, 7)
	began := time.Now()
	duplicate := runParty(t, url, "first", 3)
	kittest.Eventually(t, "a warning of a copy", func() error {
		warnings := strings.Join(append(original.health.Warnings(), duplicate.health.Warnings()...), "\n")
		if !strings.Contains(warnings, "a copy of this store") || !strings.Contains(warnings, "registry installation -set new") {
			return fmt.Errorf("warnings %q", warnings)
		}
		return nil
	})
	if n, most := original.rebuilds(t)+duplicate.rebuilds(t), 5+2*int(time.Since(began)/time.Second); n > most {
		t.Errorf("the stream was made %d times in %s", n, time.Since(began))
	}
	duplicate.stop()
	waitForStreamAt(t, js, original.log, 7)
}
