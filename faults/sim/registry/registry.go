package registry

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/timestamppb"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/faults/sim/netem"
	"portolan.dev/services/changes/changestest"
	"portolan.dev/services/kinds"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// fenceHeader is the metadata key of the lease and epoch that a write requires.
const fenceHeader = "portolan-fence"

// families are the families of service addresses.
var families = []corev1.IPFamily{corev1.IPFamily_IP_FAMILY_IPV4, corev1.IPFamily_IP_FAMILY_IPV6}

// Registry is a model of the registry. It is safe for concurrent use.
type Registry struct {
	Log *changestest.Log

	emulator *netem.Emulator

	mu             sync.Mutex // locked from the checks of a write to its end
	generatedNames int
	violations     []string
	queued         []*write
	histories      [][]Committed // the last one is the current history
}

// New returns an empty registry.
func New(t testing.TB, emulator *netem.Emulator) *Registry {
	return &Registry{Log: changestest.New(t), emulator: emulator, histories: [][]Committed{nil}}
}

// Violations returns the writes of daemons that were not allowed to write.
func (r *Registry) Violations() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.violations)
}

// Prune removes all changes from the log. A follower that lacks some of them needs a snapshot.
func (r *Registry) Prune() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.recordCommits()
	r.Log.Prune(r.Log.Revision())
}

// Put stores objects unchanged, without the checks and defaults of a write.
func (r *Registry) Put(objects ...object.Object) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Log.Put(objects...)
	r.recordCommits()
}

// NewEpoch gives the log a new epoch. Followers then need a snapshot.
func (r *Registry) NewEpoch() {
	r.Log.NewEpoch(context.Background()) // a log in memory returns no error
}

// RestoreBackup restores a backup that lacks the given number of last changes. The log gets a new
// epoch. RestoreBackup does nothing if the log was pruned, or does not have more changes than that.
func (r *Registry) RestoreBackup(changes uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.recordCommits()
	_, head, oldest, _ := r.Log.Head(context.Background()) // a log in memory returns no error
	if oldest > 0 || changes >= head {
		return
	}
	r.Log.Restore(changes)
	r.NewEpoch()
	r.histories = append(r.histories, slices.Clip(r.current()[:head-changes]))
}

// Get returns an object.
func (r *Registry) Get(key object.Key) (object.Object, error) {
	if o := r.Log.Get(key); o != nil {
		return o, nil
	}
	return nil, apierr.NotFound(key.Kind, key.Path())
}

// Create stores a new object.
func (r *Registry) Create(ctx context.Context, o object.Object) (object.Object, error) {
	return r.commit(func() (object.Object, error) { return r.create(ctx, o) })
}

// Update replaces an object. If status is set, it changes only the object's status.
func (r *Registry) Update(ctx context.Context, o object.Object, status bool) (object.Object, error) {
	return r.commit(func() (object.Object, error) { return r.update(ctx, o, status) })
}

// Delete removes an object. The collector removes the objects that it owned a little later. An
// empty uid matches any UID, and version 0 any version.
func (r *Registry) Delete(ctx context.Context, key object.Key, uid string, version uint64) (object.Object, error) {
	return r.commit(func() (object.Object, error) { return r.remove(ctx, key, uid, version) })
}

func (r *Registry) create(ctx context.Context, o object.Object) (object.Object, error) {
	o = object.Clone(o)
	meta := object.MetaOf(o)
	if meta.GetName() == "" {
		r.generatedNames++
		meta.Name = fmt.Sprintf("%s%d", meta.GetGenerateName(), r.generatedNames)
	}
	key := object.KeyOf(o)
	if r.Log.Get(key) != nil {
		return nil, apierr.AlreadyExists(key.Kind, key.Path())
	}
	if err := r.checkFence(ctx, o); err != nil {
		return nil, err
	}
	kinds.Of(o).PrepareCreate(o)
	kinds.Of(o).Default(o)
	if svc, ok := o.(*corev1.Service); ok {
		spec.ResolveFamilies(svc, nil, families)
	}
	meta = object.MetaOf(o)
	meta.Uid, meta.ResourceVersion, meta.CreationTimestamp = "", 0, timestamppb.Now()
	stored := r.put(o, nil)
	if len(stored.GetMetadata().GetOwnerReferences()) > 0 {
		r.scheduleCollect() // the owner may already be deleted
	}
	return stored, nil
}

func (r *Registry) update(ctx context.Context, o object.Object, status bool) (object.Object, error) {
	o = object.Clone(o)
	key := object.KeyOf(o)
	old := r.Log.Get(key)
	if old == nil || uidMismatch(o.GetMetadata().GetUid(), old.GetMetadata().GetUid()) {
		return nil, apierr.NotFound(key.Kind, key.Path())
	}
	if have, want := old.GetMetadata().GetResourceVersion(), o.GetMetadata().GetResourceVersion(); want != 0 && have != want {
		return nil, apierr.Conflict(key.Kind, key.Path(), have, want)
	}
	if err := r.checkFence(ctx, o); err != nil {
		return nil, err
	}
	if status {
		kinds.Of(o).PrepareStatusUpdate(o, old)
	} else {
		kinds.Of(o).PrepareUpdate(o, old)
		kinds.Of(o).Default(o)
	}
	if svc, ok := o.(*corev1.Service); ok {
		before, _ := old.(*corev1.Service)
		spec.ResolveFamilies(svc, before, families)
	}
	object.MetaOf(o).Uid = old.GetMetadata().GetUid()
	return r.put(o, old), nil
}

// uidMismatch reports whether a client requires a UID and the stored object has another one.
func uidMismatch(required, stored string) bool { return required != "" && required != stored }

func (r *Registry) remove(ctx context.Context, key object.Key, uid string, version uint64) (object.Object, error) {
	old := r.Log.Get(key)
	if old == nil || uidMismatch(uid, old.GetMetadata().GetUid()) {
		return nil, apierr.NotFound(key.Kind, key.Path())
	}
	if have := old.GetMetadata().GetResourceVersion(); version != 0 && have != version {
		return nil, apierr.Conflict(key.Kind, key.Path(), have, version)
	}
	if err := r.checkFence(ctx, old); err != nil {
		return nil, err
	}
	r.Log.Delete(key)
	r.scheduleCollect()
	return old, nil
}

// put stores an object. It sets the epoch of a lease, which increases with each new holder.
func (r *Registry) put(o, old object.Object) object.Object {
	if lease, ok := o.(*corev1.Lease); ok {
		before, _ := old.(*corev1.Lease)
		lease.Spec.Epoch = before.GetSpec().GetEpoch()
		if holder := lease.GetSpec().GetHolderIdentity(); before == nil || holder != "" && holder != before.GetSpec().GetHolderIdentity() {
			lease.Spec.Epoch = max(lease.Spec.Epoch, r.Log.Revision()) + 1
		}
	}
	r.Log.Put(o)
	return r.Log.Get(object.KeyOf(o))
}

// scheduleCollect runs the collector after the delay of the link "collector", because the collector
// of a registry runs asynchronously, too.
func (r *Registry) scheduleCollect() {
	time.AfterFunc(r.emulator.Next("collector").Delay, r.collect)
}

// collect removes each object that has an owner reference to a deleted object, and each Endpoints
// without a service of the same name.
func (r *Registry) collect() {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.Log.Objects()
	alive := map[string]bool{}
	for _, o := range all {
		alive[o.GetMetadata().GetUid()] = true
	}
	dead := func(ref *corev1.OwnerReference) bool { return !alive[ref.GetUid()] }
	for _, o := range all {
		key := object.KeyOf(o)
		orphan := slices.ContainsFunc(o.GetMetadata().GetOwnerReferences(), dead)
		if key.Kind == "Endpoints" {
			orphan = r.Log.Get(object.Key{Kind: "Service", Namespace: key.Namespace, Name: key.Name}) == nil
		}
		if orphan {
			r.Log.Delete(key)
		}
	}
	r.recordCommits()
}

// checkFence returns an error if the writer does not hold the lease that its fence header names.
//
// It records a violation if an endpoint controller writes slices or Endpoints of a shard that another
// one holds, with or without a fence. After RestoreBackup it records none, because the epochs of leases are
// then used again. (Restoring a real registry takes longer than the leases last, here it takes no
// time.)
func (r *Registry) checkFence(ctx context.Context, o object.Object) error {
	md, _ := metadata.FromIncomingContext(ctx)
	for _, fence := range md.Get(fenceHeader) {
		name, epoch, _ := strings.Cut(fence, "=")
		namespace, name, _ := strings.Cut(name, "/")
		if want, err := strconv.ParseUint(epoch, 10, 64); err != nil || r.lease(namespace, name).GetSpec().GetEpoch() != want {
			return apierr.FailedPrecondition("the writer does not hold the lease")
		}
	}
	writer := caller(ctx)
	kind := object.KindOf(o)
	if len(r.histories) > 1 || !strings.HasPrefix(writer, "endpointctl") || kind != "EndpointSlice" && kind != "Endpoints" {
		return nil
	}
	if holder := r.controllerOf(o); holder != "" && holder != writer {
		r.violations = append(r.violations, fmt.Sprintf("%s wrote %s while %s led", writer, object.KeyOf(o), holder))
	}
	return nil
}

// controllerOf returns the endpoint controller that may write a slice or an Endpoints, or "" if there
// is none.
func (r *Registry) controllerOf(o object.Object) string {
	service := object.NameOf(o)
	if slice, ok := o.(*corev1.EndpointSlice); ok {
		service = object.ServiceOf(slice)
	}
	shards := int(r.lease(object.DefaultNamespace, spec.ControllerLease).GetSpec().GetShards())
	lease := spec.ControllerShardLease(spec.ControllerLease, spec.ControllerShard(service, shards))
	return r.lease(object.DefaultNamespace, lease).GetSpec().GetHolderIdentity()
}

func (r *Registry) lease(namespace, name string) *corev1.Lease {
	lease, _ := r.Log.Get(object.Key{Kind: "Lease", Namespace: namespace, Name: name}).(*corev1.Lease)
	return lease
}

type callerKey struct{}

// WithCaller returns a context with the name of the calling daemon.
func WithCaller(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, callerKey{}, name)
}

// caller returns the name of the calling daemon. It is empty for clients.
func caller(ctx context.Context) string {
	name, _ := ctx.Value(callerKey{}).(string)
	return name
}
