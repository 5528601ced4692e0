package syncloop

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "portolan.dev/api/core/v1"

	"portolan.dev/nodeagent/dataplane"
	"portolan.dev/nodeagent/dataplane/userspace"
	"portolan.dev/nodeagent/plan"
)

// keeper is a plane in which clients may keep their time of affinity, and which may refuse changes.
type keeper struct {
	dataplane.Plane
	keeps  bool
	refuse error
}

func (k *keeper) KeepsAffinity() bool { return k.keeps }

func (k *keeper) Apply(ctx context.Context, changed plan.Changes) []dataplane.Failure {
	if k.refuse != nil {
		return dataplane.FailAll(changed, k.refuse)
	}
	return k.Plane.Apply(ctx, changed)
}

// TestAChangedTimeOfAffinityIsReported checks that there is one Event when the time of affinity of a service
// changes, if the plane's known clients keep the former one, and that there is none otherwise.
func TestAChangedTimeOfAffinityIsReported(t *testing.T) {
	at := freeAt(t, "127.101.7.9")
	service := func(seconds int32) *corev1.Service {
		svc := webService("web", 1, at)
		if seconds > 0 {
			svc.Spec.SessionAffinity = corev1.SessionAffinity_SESSION_AFFINITY_CLIENT_IP
			svc.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIp: &corev1.ClientIPConfig{TimeoutSeconds: &seconds}}
		}
		return svc
	}
	for _, keeps := range []bool{true, false} {
		plane := userspace.New(userspace.Options{})
		defer plane.Close()
		k := &keeper{Plane: plane, keeps: keeps}
		b := newBench(t, k)
		slice := sliceOf("web", netip.MustParseAddrPort("127.101.7.10:8080"))
		for _, step := range []struct {
			seconds int32
			refuse  error
			want    string // in the only event; empty: there is none
		}{
			{seconds: 0}, {seconds: 3600}, {seconds: 3600},
			{seconds: 2, refuse: errors.New("no")}, // reported with the next try
			{seconds: 2, want: "affinity of 2s; clients that this node knows keep 1h0m0s"},
			{seconds: 7200, want: "affinity of 2h0m0s; clients that this node knows keep 2s"},
			{seconds: 0}, {seconds: 60},
		} {
			k.refuse = step.refuse
			b.change(service(step.seconds), slice)
			b.sync(t.Context())
			for _, f := range b.failing {
				f.next = time.Now()
			}
			b.retry(t.Context())
			got := slices.DeleteFunc(b.problems(), func(e string) bool { return !strings.HasPrefix(e, "AffinityKept web: ") })
			switch {
			case !keeps || step.want == "":
				if len(got) > 0 {
					t.Errorf("keeps %t, %d s: events %q", keeps, step.seconds, got)
				}
			case len(got) != 1 || !strings.Contains(got[0], step.want):
				t.Errorf("%d s: events %q, want one with %q", step.seconds, got, step.want)
			}
		}
	}
}
