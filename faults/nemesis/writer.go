package nemesis

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"portolan.dev/portolan/e2e/churn/model"
	"portolan.dev/portolan/e2e/churn/workload"
	corev1 "portolan.dev/proto/portolan/core/v1"
	registryv1 "portolan.dev/proto/portolan/registry/v1"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
)

const (
	// attempt is how long a client waits for the answer to a write.
	attempt = 3 * time.Second
	// insistence is how long a client repeats a write before it turns to something else.
	insistence = 15 * time.Second
	// doubtful is how long after its last attempt a write may still happen. The lab's registries and its Postgres
	// end within two seconds the calls that no client waits for.
	doubtful = 4 * time.Second
)

// doubt is what clients do not know of an object: whether a write happened, and whether it will.
type doubt struct {
	last    time.Time // attempt
	deletes bool      // one of the writes is a deletion
}

// refusal is how often writes were given up for a reason, and the last of the errors.
type refusal struct {
	times int
	last  error
}

// writer carries out writes that may get no answer.
type writer struct {
	inner *workload.Writer
	meter *meter

	mu      sync.Mutex
	doubts  map[object.Key]doubt
	refused map[string]refusal // by code and reason
}

func newWriter(conn grpc.ClientConnInterface, m *meter) *writer {
	return &writer{
		inner: &workload.Writer{Registry: conn, World: model.New(), History: workload.NewHistory()}, meter: m,
		doubts: map[object.Key]doubt{}, refused: map[string]refusal{},
	}
}

// do carries out a step. It repeats the step until it has happened, is refused for good, or the client loses
// patience. The object is in doubt unless the first attempt succeeded.
func (w *writer) do(ctx context.Context, s workload.Step) {
	for deadline := time.Now().Add(insistence); ; {
		err := w.try(ctx, s)
		if err == nil {
			return
		}
		w.doubt(s)
		if !transient(err) {
			w.refuse(err)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		if time.Now().After(deadline) {
			w.refuse(err)
			return
		}
	}
}

// pause is the time between two attempts.
const pause = 100 * time.Millisecond

func (w *writer) try(ctx context.Context, s workload.Step) error {
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	began := time.Now()
	err := w.inner.Do(ctx, s)
	w.meter.note(began, err)
	return err
}

// transient reports whether the same write may succeed later.
func transient(err error) bool {
	switch apierr.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.Aborted, codes.ResourceExhausted, codes.Internal, codes.Unknown:
		return true
	}
	return false
}

func (w *writer) doubt(s workload.Step) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := object.KeyOf(s.Object)
	d := w.doubts[key]
	d.last = time.Now()
	d.deletes = d.deletes || s.Verb == workload.Delete
	w.doubts[key] = d
}

func (w *writer) refuse(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	reason := fmt.Sprintf("%s %s", apierr.Code(err), apierr.ReasonOf(err))
	w.refused[reason] = refusal{w.refused[reason].times + 1, err}
}

// settled returns how long some writes may still happen.
func (w *writer) settled() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	var longest time.Duration
	for _, d := range w.doubts {
		longest = max(longest, time.Until(d.last.Add(doubtful)))
	}
	return longest
}

// settle takes from a registry what became of the objects in doubt. It returns an error if an object is older
// than a client knows it, or gone though nobody deleted it.
func (w *writer) settle(ctx context.Context, registry grpc.ClientConnInterface) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, d := range w.doubts {
		got, err := read(ctx, registry, key)
		if err != nil && !apierr.IsNotFound(err) {
			return err
		}
		known := w.inner.World.Get(key)
		switch {
		case err == nil && known != nil && got.GetMetadata().GetResourceVersion() < known.GetMetadata().GetResourceVersion():
			return fmt.Errorf("%s is at revision %d, and was acknowledged at %d", key, got.GetMetadata().GetResourceVersion(), known.GetMetadata().GetResourceVersion())
		case err == nil:
			w.inner.World.Put(got)
		case known != nil && !d.deletes:
			return fmt.Errorf("%s is gone, and was acknowledged at revision %d", key, known.GetMetadata().GetResourceVersion())
		default:
			w.inner.World.Delete(key)
		}
	}
	return nil
}

// forget ends the doubts that settle has decided: nothing of them can happen any more.
func (w *writer) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.doubts)
}

// read returns an object.
func read(ctx context.Context, registry grpc.ClientConnInterface, key object.Key) (object.Object, error) {
	switch key.Kind {
	case object.KindOf(&corev1.Service{}):
		got, err := registryv1.NewServiceServiceClient(registry).GetService(ctx, &registryv1.GetServiceRequest{Namespace: key.Namespace, Name: key.Name})
		return got.GetService(), err
	case object.KindOf(&corev1.Pod{}):
		got, err := registryv1.NewPodServiceClient(registry).GetPod(ctx, &registryv1.GetPodRequest{Namespace: key.Namespace, Name: key.Name})
		return got.GetPod(), err
	case object.KindOf(&corev1.EndpointSlice{}):
		got, err := registryv1.NewEndpointSliceServiceClient(registry).GetEndpointSlice(ctx, &registryv1.GetEndpointSliceRequest{Namespace: key.Namespace, Name: key.Name})
		return got.GetEndpointSlice(), err
	}
	return nil, fmt.Errorf("no step writes a %s", key.Kind)
}
