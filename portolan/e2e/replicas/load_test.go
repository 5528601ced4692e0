package replicas

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/kit/kittest"
)

// markLabel is a label with another value in each write, so that the log can be compared with the
// responses.
const markLabel = "write"

// entry is the result of one write for its client.
type entry struct {
	mark     string // of a create or update
	uid      string // of a deletion
	revision uint64 // 0: not in the response
	err      error
}

// load holds clients that write until they are stopped.
type load struct {
	t       *testing.T
	stopped chan struct{}
	clients sync.WaitGroup

	mu      sync.Mutex
	entries []entry
	acked   map[*replica]int
	refused map[*replica]int // by UNAVAILABLE with RetryInfo
}

func startLoad(t *testing.T, replicas []*replica, clients int) *load {
	t.Helper()
	l := &load{t: t, stopped: make(chan struct{}), acked: map[*replica]int{}, refused: map[*replica]int{}}
	for client := range clients {
		r := replicas[client%len(replicas)]
		l.clients.Go(func() {
			for round := 0; !l.over(); round++ {
				l.life(r, fmt.Sprintf("c%d-%d", client, round), round%8 == 0)
				l.pause(think)
			}
		})
	}
	t.Cleanup(l.stop)
	return l
}

// think is the pause of a client after the life of an object. A load that takes the whole machine
// would leave no time for processes to start.
const think = 50 * time.Millisecond

func (l *load) pause(d time.Duration) {
	select {
	case <-l.stopped:
	case <-time.After(d):
	}
}

func (l *load) over() bool {
	select {
	case <-l.stopped:
		return true
	default:
		return false
	}
}

// stop lets every client finish its call. It can be called again.
func (l *load) stop() {
	if !l.over() {
		close(l.stopped)
	}
	l.clients.Wait()
}

// life creates a service, changes it twice, and deletes it unless stays is true. A write that is
// not acknowledged ends it.
func (l *load) life(r *replica, name string, stays bool) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	svc := web(name)
	svc.Metadata.Labels = map[string]string{markLabel: name + "-0"}
	created, err := r.services.CreateService(ctx, &registryv1.CreateServiceRequest{Service: svc}, grpc.WaitForReady(true))
	meta := created.GetService().GetMetadata()
	uid := meta.GetUid()
	if !l.note(r, entry{mark: name + "-0", revision: meta.GetResourceVersion(), err: err}) {
		return
	}
	for step := 1; step <= 2; step++ {
		svc.Metadata.Labels[markLabel] = fmt.Sprintf("%s-%d", name, step)
		updated, err := r.services.UpdateService(ctx, &registryv1.UpdateServiceRequest{Service: svc}, grpc.WaitForReady(true))
		revision := updated.GetService().GetMetadata().GetResourceVersion()
		if !l.note(r, entry{mark: svc.Metadata.Labels[markLabel], revision: revision, err: err}) {
			return
		}
	}
	if !stays {
		_, err := r.services.DeleteService(ctx, &registryv1.DeleteServiceRequest{Name: name}, grpc.WaitForReady(true))
		l.note(r, entry{uid: uid, err: err})
	}
}

// web returns a service with a selector and one port.
func web(name string) *corev1.Service {
	return &corev1.Service{
		Metadata: &corev1.ObjectMeta{Name: name},
		Spec: &corev1.ServiceSpec{
			Selector: map[string]string{"app": name},
			Ports:    []*corev1.ServicePort{{Name: "http", Port: 80}},
		},
	}
}

// note records a write and reports whether it was acknowledged. It accepts only errors that mean
// that a daemon cannot be reached.
func (l *load) note(r *replica, e entry) bool {
	if e.err != nil {
		l.pause(think) // a client that should retry later does so
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = append(l.entries, e)
	s := status.Convert(e.err)
	switch s.Code() {
	case codes.OK:
		l.acked[r]++
	case codes.Unavailable:
		if slices.ContainsFunc(s.Details(), func(d any) bool { _, ok := d.(*errdetails.RetryInfo); return ok }) {
			l.refused[r]++
		}
	default:
		l.t.Errorf("%s: write %s%s: %v", r.name, e.mark, e.uid, e.err)
	}
	return e.err == nil
}

// awaitAcks waits until replicas have acknowledged n more writes each.
func (l *load) awaitAcks(n int, replicas ...*replica) {
	l.t.Helper()
	l.await(l.acked, "acknowledged writes", n, replicas)
}

// awaitRefusals waits until replicas have answered n more writes each with UNAVAILABLE and
// RetryInfo.
func (l *load) awaitRefusals(n int, replicas ...*replica) {
	l.t.Helper()
	l.await(l.refused, "refused writes", n, replicas)
}

func (l *load) await(counts map[*replica]int, what string, n int, replicas []*replica) {
	l.t.Helper()
	for _, r := range replicas {
		until := l.count(counts, r) + n
		kittest.Eventually(l.t, what+" on "+r.name, func() error {
			if got := l.count(counts, r); got < until {
				return fmt.Errorf("%d of %d", got, until)
			}
			return nil
		})
	}
}

func (l *load) count(counts map[*replica]int, r *replica) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return counts[r]
}
