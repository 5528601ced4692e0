package registrytest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/changes/changestest"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

// Registry is the fake. Tests put objects into its Log and inspect it.
type Registry struct {
	Log *changestest.Log

	mu    sync.Mutex // makes check and write one step
	names int
	fail  func(op string, o object.Object) error
	delay func(op string, o object.Object)
	calls []int // numbers of writes of the bulk calls
}

// New returns an empty registry.
func New(t testing.TB) *Registry { return &Registry{Log: changestest.New(t)} }

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

// Fail makes writes fail with the error that fn returns for them. If fn is nil, none fail.
func (r *Registry) Fail(fn func(op string, o object.Object) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fail = fn
}

// Delay calls fn after each write by the controller, before the controller gets the response.
func (r *Registry) Delay(fn func(op string, o object.Object)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.delay = fn
}

// countCall counts a bulk call.
func (r *Registry) countCall(writes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, writes)
}

// Calls returns the number of writes of each bulk call.
func (r *Registry) Calls() []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.calls)
}

// respond returns the result of a write to the controller, after the test's delay.
func respond[T object.Object](r *Registry, op string, o T, err error) (T, error) {
	r.mu.Lock()
	delay := r.delay
	r.mu.Unlock()
	if err == nil && delay != nil {
		delay(op, o)
	}
	return o, err
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

// check returns an error if a write must fail.
func (r *Registry) check(ctx context.Context, op string, o object.Object) error {
	if err := r.checkFence(ctx, o); err != nil {
		return err
	}
	if r.fail != nil {
		return r.fail(op, o)
	}
	return nil
}

// checkFence is stricter than the real registry: every write except to a Lease must have a fence.
func (r *Registry) checkFence(ctx context.Context, o object.Object) error {
	md, _ := metadata.FromIncomingContext(ctx)
	fences := md.Get("portolan-fence")
	if kind := object.KindOf(o); len(fences) == 0 && kind != "Lease" {
		return apierr.FailedPrecondition("a write of " + kind + " without a fence")
	}
	for _, fence := range fences {
		name, epoch, _ := strings.Cut(fence, "=")
		namespace, name, _ := strings.Cut(name, "/")
		lease, _ := r.Log.Get(object.Key{Kind: "Lease", Namespace: namespace, Name: name}).(*corev1.Lease)
		if want, err := strconv.ParseUint(epoch, 10, 64); err != nil || lease.GetSpec().GetEpoch() != want {
			return apierr.FailedPrecondition("the writer does not hold the lease")
		}
	}
	return nil
}

func create[T object.Object](ctx context.Context, r *Registry, o T) (T, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var none T
	o = object.Clone(o)
	meta := object.MetaOf(o)
	meta.Uid, meta.ResourceVersion = "", 0
	if meta.GetName() == "" {
		r.names++
		meta.Name = fmt.Sprintf("%s%d", meta.GetGenerateName(), r.names)
	}
	key := object.KeyOf(o)
	if r.Log.Get(key) != nil {
		return none, apierr.AlreadyExists(key.Kind, key.Path())
	}
	if err := r.check(ctx, "create", o); err != nil {
		return none, err
	}
	return putStored(r, o, nil), nil
}

func update[T object.Object](ctx context.Context, r *Registry, o T) (T, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var none T
	key := object.KeyOf(o)
	old, ok := r.Log.Get(key).(T)
	if !ok {
		return none, apierr.NotFound(key.Kind, key.Path())
	}
	if have, want := old.GetMetadata().GetResourceVersion(), o.GetMetadata().GetResourceVersion(); want != 0 && have != want {
		return none, apierr.Conflict(key.Kind, key.Path(), have, want)
	}
	if err := r.check(ctx, "update", o); err != nil {
		return none, err
	}
	return putStored(r, object.Clone(o), old), nil
}

// putStored puts an object, and sets the epoch of a lease.
func putStored[T object.Object](r *Registry, o T, old object.Object) T {
	if lease, ok := any(o).(*corev1.Lease); ok {
		before, _ := old.(*corev1.Lease)
		lease.Spec.Epoch = before.GetSpec().GetEpoch()
		if holder := lease.GetSpec().GetHolderIdentity(); before == nil || holder != "" && holder != before.GetSpec().GetHolderIdentity() {
			lease.Spec.Epoch++
		}
	}
	r.Log.Put(o)
	now, _ := r.Log.Get(object.KeyOf(o)).(T)
	return now
}

// deleteRequest is a request to delete a version of an object.
type deleteRequest interface {
	GetNamespace() string
	GetName() string
	GetUid() string
	GetResourceVersion() uint64
}

func remove[T object.Object](ctx context.Context, r *Registry, kind string, w deleteRequest) (T, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var none T
	key := object.Key{Kind: kind, Namespace: w.GetNamespace(), Name: w.GetName()}
	old, ok := r.Log.Get(key).(T)
	if !ok || w.GetUid() != "" && w.GetUid() != old.GetMetadata().GetUid() {
		return none, apierr.NotFound(kind, key.Path())
	}
	if have := old.GetMetadata().GetResourceVersion(); w.GetResourceVersion() != 0 && have != w.GetResourceVersion() {
		return none, apierr.Conflict(kind, key.Path(), have, w.GetResourceVersion())
	}
	if err := r.check(ctx, "delete", old); err != nil {
		return none, err
	}
	r.Log.Delete(key)
	return old, nil
}

func get[T object.Object](r *Registry, kind, namespace, name string) (T, error) {
	key := object.Key{Kind: kind, Namespace: namespace, Name: name}
	o, ok := r.Log.Get(key).(T)
	if !ok {
		return o, apierr.NotFound(kind, key.Path())
	}
	return o, nil
}

// Unavailable is an error for Fail.
var Unavailable = status.Error(codes.Unavailable, "the registry is away")
