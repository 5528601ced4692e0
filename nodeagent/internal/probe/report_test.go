package probe_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/nodeagent/internal/probe"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

func ttlProbe(seconds int32) *corev1.Probe {
	return &corev1.Probe{Handler: &corev1.Probe_Ttl{Ttl: &corev1.TTLAction{Seconds: seconds}}}
}

func podKey(name string) object.Key { return object.Key{Kind: "Pod", Namespace: "default", Name: name} }

// prober is a prober in a bubble of synctest. Its writes go to the field pod.
type prober struct {
	*probe.Prober
	t *testing.T

	mu     sync.Mutex
	pod    *corev1.Pod // guarded by mu
	writes int         // guarded by mu
}

func (p *prober) stored() *corev1.Pod {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pod
}

func (p *prober) timesWritten() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.writes
}

// newProber runs a prober of one pod.
func newProber(t *testing.T, pod *corev1.Pod) *prober {
	p := &prober{t: t, pod: pod}
	p.Prober = probe.New(probe.Options{Log: kittest.Logger(t), Write: func(_ context.Context, _ *corev1.Pod, change func(*corev1.Pod) bool) error {
		p.mu.Lock()
		defer p.mu.Unlock()
		now := p.pod.CloneVT()
		if change(now) {
			p.writes++
			p.pod = now
		}
		return nil
	}})
	kittest.Run(t, "prober", p.Run)
	p.Set([]*corev1.Pod{pod})
	synctest.Wait()
	return p
}

func (p *prober) report(failure error) {
	p.t.Helper()
	if _, err := p.Report(p.t.Context(), object.KeyOf(p.stored()), "", failure); err != nil {
		p.t.Fatal(err)
	}
	synctest.Wait()
	p.Set([]*corev1.Pod{p.stored()})
	synctest.Wait()
}

// want compares the Ready condition.
func (p *prober) want(ready bool, part string) {
	p.t.Helper()
	synctest.Wait()
	c := object.Condition(p.stored().GetStatus().GetConditions(), object.ConditionReady)
	if (c.GetStatus() == isTrue) != ready || !strings.Contains(c.GetMessage(), part) {
		p.t.Errorf("the condition is %v, want ready %t with %q", c, ready, part)
	}
}

// TestTTL follows a pod with a ttl check: it is not ready before the first report, ready as long as
// reports come in time, and nothing is written for a report that changes nothing.
func TestTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProber(t, pod("p", ttlProbe(30)))
		p.want(false, "no client has reported yet")
		time.Sleep(time.Minute)
		p.want(false, "no client has reported yet")
		p.report(nil)
		p.want(true, "")
		for range 5 {
			time.Sleep(29 * time.Second)
			p.report(nil)
			p.want(true, "")
		}
		if writes := p.timesWritten(); writes != 2 {
			t.Errorf("%d writes, want 2: not ready, and ready", writes)
		}
		time.Sleep(29 * time.Second)
		p.want(true, "")
		time.Sleep(2 * time.Second)
		p.want(false, "no client has reported within 30s")
		p.report(nil)
		p.want(true, "")
		time.Sleep(2 * time.Second)
		p.report(errors.New("the disk is full"))
		p.want(false, "container main: the disk is full")
		time.Sleep(time.Hour)
		p.want(false, "the disk is full")
	})
}

// TestTTLAfterARestart checks that the stored readiness holds for one time to live.
func TestTTLAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		known := pod("p", ttlProbe(30))
		known.Status.Conditions = []*corev1.Condition{{Type: "Ready", Status: isTrue}}
		p := newProber(t, known)
		time.Sleep(29 * time.Second)
		p.want(true, "")
		if writes := p.timesWritten(); writes != 0 {
			t.Errorf("%d writes, want none", writes)
		}
		time.Sleep(2 * time.Second)
		p.want(false, "no client has reported within 30s")
	})
}

// TestReportsAreSlowedDown checks that a client with changing reports causes at most one write a second.
func TestReportsAreSlowedDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProber(t, pod("p", ttlProbe(30)))
		begin := time.Now()
		for i := range 10 {
			var failure error
			if i%2 > 0 {
				failure = errors.New("no")
			}
			p.report(failure)
		}
		if took, writes := time.Since(begin), p.timesWritten(); took < 9*time.Second || writes > 11 {
			t.Errorf("ten changes took %s and %d writes, want a second each", took, writes)
		}
	})
}

// TestReportsThatAreRefused checks the errors of reports.
func TestReportsThatAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	waiting := pod("waiting", ttlProbe(30))
	waiting.Status.Phase = corev1.PodPhase_POD_PHASE_PENDING
	two := pod("two", ttlProbe(30))
	two.Spec.Containers = append(two.Spec.Containers, &corev1.Container{Name: "other", ReadinessProbe: ttlProbe(20)}, &corev1.Container{Name: "plain"})
	w.put(waiting)
	w.put(two)
	w.put(pod("asked", nil))
	w.untilMessage("two", "container main: no client") // the probers have started
	for _, tc := range []struct {
		pod, container string
		code           codes.Code
		part           string
	}{
		{"nobody", "", codes.NotFound, "nobody"},
		{"asked", "", codes.FailedPrecondition, "no ttl check"},
		{"waiting", "", codes.FailedPrecondition, "pending"},
		{"two", "", codes.FailedPrecondition, "name one"},
		{"two", "plain", codes.FailedPrecondition, `"plain"`},
		{"two", "missing", codes.FailedPrecondition, `"missing"`},
		{"two", "other", codes.OK, ""},
	} {
		_, err := w.prober.Report(t.Context(), podKey(tc.pod), tc.container, nil)
		if apierr.Code(err) != tc.code || err != nil && !strings.Contains(err.Error(), tc.part) {
			t.Errorf("%s/%s: %v, want %s with %q", tc.pod, tc.container, err, tc.code, tc.part)
		}
	}
	if ttl, err := w.prober.Report(t.Context(), podKey("two"), "main", nil); err != nil || ttl != 30*time.Second {
		t.Errorf("%s, %v", ttl, err)
	}
	w.until("two", isTrue)
}
