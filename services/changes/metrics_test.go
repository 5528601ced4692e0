package changes_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"portolan.dev/services/changes"
	"portolan.dev/services/changes/changestest"
	"portolan.dev/services/kit/kittest"
)

func TestMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	log := changestest.New(t)
	f := log.Follow(fast(changes.FollowerConfig{Metrics: reg}))
	putMany(log, 3)
	log.WaitFor(f)
	want := `
# HELP portolan_changes_revision Revision up to which changes are applied.
# TYPE portolan_changes_revision gauge
portolan_changes_revision 3
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "portolan_changes_revision"); err != nil {
		t.Error(err)
	}
}

func TestMetricsLint(t *testing.T) {
	reg := prometheus.NewRegistry()
	_, url := kittest.NATS(t)
	relayOf(t, changestest.New(t), url, func(cfg *changes.RelayConfig) { cfg.Metrics = reg })
	if _, err := changes.NewFollower(changes.FollowerConfig{Log: kittest.Logger(t), Metrics: reg}); err != nil {
		t.Fatal(err)
	}
	problems, err := testutil.GatherAndLint(reg)
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range problems {
		t.Errorf("%s: %s", problem.Metric, problem.Text)
	}
}
