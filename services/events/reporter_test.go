package events

import (
	"log/slog"
	"slices"
	"testing"

	corev1 "portolan.dev/api/core/v1"
)

// TestReporterLeavesOutRepetitions checks that an event is written unless it equals the last one with
// its key, and again after it could not be written or was forgotten.
func TestReporterLeavesOutRepetitions(t *testing.T) {
	registry := &absent{away: 1}
	r := NewReporter[string]("lbctl", registry, slog.New(slog.DiscardHandler))
	svc := &corev1.Service{Metadata: &corev1.ObjectMeta{Name: "web", Namespace: "shop", Uid: "u"}}
	say := func(key, reason, message string) {
		r.Report(t.Context(), key, svc, corev1.EventType_EVENT_TYPE_NORMAL, reason, message)
	}
	say("a", "One", "lost")
	say("a", "One", "lost")
	say("a", "One", "lost")
	say("b", "One", "lost")
	say("a", "Two", "lost")
	say("a", "One", "lost")
	r.Forget("a")
	say("a", "One", "lost")
	r.ForgetAll(func(key string) bool { return key == "b" })
	say("a", "One", "lost")
	say("b", "One", "lost")
	var got []string
	for _, event := range registry.got {
		got = append(got, event.GetReason())
		if event.GetRegarding().GetUid() != "u" || event.GetMetadata().GetNamespace() != "shop" || event.GetReportingComponent() != "lbctl" {
			t.Errorf("event %v", event)
		}
	}
	if want := []string{"One", "One", "Two", "One", "One", "One"}; !slices.Equal(got, want) {
		t.Errorf("events %q, want %q", got, want)
	}
}
