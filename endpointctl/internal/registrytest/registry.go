package registrytest

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/changes/changestest"
	"portolan.dev/services/kinds"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/guard"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

// Registry is the fake. Tests put objects into its Log and inspect it.
type Registry struct {
	Log *changestest.Log

	mu     sync.Mutex // makes check and write one step
	writes changestest.Writes
	fail   func(op string, o object.Object) error
	delay  func(op string, o object.Object)
	calls  []int // numbers of writes of the bulk calls
}

// New returns an empty registry.
func New(t testing.TB) *Registry {
	r := &Registry{Log: changestest.New(t)}
	r.writes = changestest.Writes{Log: r.Log, Admit: r.admit}
	return r
}

// Serve serves the registry until the test ends, and returns its address.
func (r *Registry) Serve(t testing.TB) string {
	t.Helper()
	lis := kittest.Listen(t)
	server := grpc.NewServer()
	r.Register(server)
	kittest.Run(t, "registry", func(ctx context.Context) error {
		defer context.AfterFunc(ctx, server.Stop)()
		return server.Serve(lis)
	})
	return lis.Addr().String()
}

// Register serves the services that the controller uses.
func (r *Registry) Register(server grpc.ServiceRegistrar) {
	r.Log.Register(server)
	changestest.Methods(r.do).Register(server)
}

// Fail makes writes fail with the error that fn returns for them. If fn is nil, none fail.
func (r *Registry) Fail(fn func(op string, o object.Object) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fail = fn
}

// Delay calls fn after each write of a bulk call, before the controller gets the response.
func (r *Registry) Delay(fn func(op string, o object.Object)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.delay = fn
}

// Calls returns the number of writes of each bulk call.
func (r *Registry) Calls() []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.calls)
}

// do executes the calls of a request, each by itself and in the order of the request. Tests see each as an
// ordinary write.
func (r *Registry) do(ctx context.Context, method string, calls []changestest.Call) []changestest.Outcome {
	bulk := method == registryv1.BulkService_Write_FullMethodName
	if bulk {
		r.mu.Lock()
		r.calls = append(r.calls, len(calls))
		r.mu.Unlock()
	}
	outcomes := make([]changestest.Outcome, len(calls))
	for i, c := range calls {
		r.mu.Lock()
		o, err := r.writes.Do(ctx, c)
		delay := r.delay
		r.mu.Unlock()
		if bulk && err == nil && delay != nil {
			delay(op(c.Verb), o)
		}
		outcomes[i] = changestest.Outcome{Object: o, Err: err}
	}
	return outcomes
}

// op returns the name of a verb for Fail and Delay.
func op(verb kinds.Verb) string { return strings.ToLower(string(verb)) }

// admit returns an error if a write must fail. It is stricter than the real registry: every write must have a fence,
// except to a Lease, and except an Event about an object that panics, which every replica finds.
func (r *Registry) admit(ctx context.Context, verb kinds.Verb, o object.Object) error {
	fences, err := r.Log.CheckFences(ctx)
	event, _ := o.(*corev1.Event)
	if kind := object.KindOf(o); fences == 0 && kind != "Lease" && event.GetReason() != guard.Reason {
		return apierr.FailedPrecondition("a write of " + kind + " without a fence")
	}
	if err == nil && r.fail != nil {
		err = r.fail(op(verb), o)
	}
	return err
}

// Put stores objects as another client than the controller.
func (r *Registry) Put(objects ...object.Object) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Log.Put(objects...)
}

// Delete deletes an object as another client than the controller.
func (r *Registry) Delete(o object.Object) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Log.Delete(object.KeyOf(o))
}

// All returns the objects of a type.
func All[T object.Object](r *Registry) []T {
	var all []T
	for _, o := range r.Log.Objects() {
		if typed, ok := o.(T); ok {
			all = append(all, typed)
		}
	}
	return all
}

// Unavailable is an error for Fail.
var Unavailable = status.Error(codes.Unavailable, "the registry is away")
