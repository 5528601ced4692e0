package controller

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/changes"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"

	"portolan.dev/endpointctl/internal/index"
	"portolan.dev/endpointctl/internal/registrytest"
)

// manualController is a controller that syncs on demand and receives changes when the test delivers
// them.
type manualController struct {
	*shard
	controller *Controller
	t          *testing.T
	writer     *writer
	registry   *registrytest.Registry
	metrics    *prometheus.Registry
	delivered  uint64 // revision up to which changes are delivered
}

// newManual returns a controller with a registry of its own. The registry has the objects, and the
// test delivers their changes to the controller.
func newManual(t *testing.T, objects ...object.Object) *manualController {
	t.Helper()
	d := &manualController{t: t, registry: registrytest.New(t), metrics: prometheus.NewRegistry()}
	d.registry.Put(&corev1.Lease{Metadata: &corev1.ObjectMeta{Name: "l", Namespace: "default"}, Spec: &corev1.LeaseSpec{Epoch: 1}})
	d.delivered = d.registry.Log.Revision()
	d.registry.Put(objects...)
	d.controller = New(Config{
		Registry: kittest.Conn(t, d.registry.Register), Log: kittest.Logger(t), Metrics: d.metrics, Index: index.New(nil), MaxPerSlice: 100, Shards: 1,
		SyncTimeout: time.Minute, LastingFailure: time.Hour,
	})
	d.shard = d.controller.shards[0]
	d.writer = d.newWriter(metadata.AppendToOutgoingContext(t.Context(), "portolan-fence", "default/l=1"))
	return d
}

// deliver delivers the next n changes to the controller. All of them must be puts.
func (d *manualController) deliver(n int) {
	d.t.Helper()
	logged, err := d.registry.Log.After(d.t.Context(), d.delivered, n)
	if err != nil || len(logged) != n {
		d.t.Fatalf("%d changes after %d: %v", len(logged), d.delivered, err)
	}
	for _, change := range logged {
		o := object.Unwrap(change.GetObject())
		key := object.KeyOf(o)
		d.delivered = change.GetRevision()
		if err := d.controller.Apply(d.t.Context(), []changes.Change{{Kind: key.Kind, Key: key, New: o, Revision: d.delivered}}, d.delivered); err != nil {
			d.t.Fatal(err)
		}
	}
}

// external returns the service of these tests without endpoints.
func external() *corev1.Service {
	svc := service()
	svc.Spec.ClusterIp, svc.Spec.Type = "", corev1.ServiceType_SERVICE_TYPE_EXTERNAL_NAME
	return svc
}

// sync syncs the service of these tests once.
func (d *manualController) sync() error {
	_, err := d.syncOne(d.t.Context(), d.writer, web)
	return err
}

// wantAddresses syncs, which must succeed, and checks the addresses in slices and Endpoints.
func (d *manualController) wantAddresses(when, want string) {
	d.t.Helper()
	if err := d.sync(); err != nil {
		d.t.Errorf("%s: %v", when, err)
	}
	if got := addresses(d.registry); got != want {
		d.t.Errorf("%s there is %s, want %s", when, got, want)
	}
}

// TestASyncKnowsWhatTheOneBeforeWrote syncs several times before the stream delivers the
// controller's own writes. It checks that each sync starts from the versions that the previous sync
// wrote, and repeats no write.
func TestASyncKnowsWhatTheOneBeforeWrote(t *testing.T) {
	d := newManual(t, service(), pod("p1", "10.0.0.1"), pod("p2", "10.0.0.2"), pod("p3", "10.0.0.3"), external(), service())
	d.deliver(2)
	d.wantAddresses("after the first pod", "10.0.0.1 / 10.0.0.1")
	d.deliver(1)
	d.wantAddresses("after the second pod", "10.0.0.1 10.0.0.2 / 10.0.0.1 10.0.0.2")
	d.deliver(1)
	d.wantAddresses("after the third pod", "10.0.0.1 10.0.0.2 10.0.0.3 / 10.0.0.1 10.0.0.2 10.0.0.3")
	d.wantAddresses("without a change", "10.0.0.1 10.0.0.2 10.0.0.3 / 10.0.0.1 10.0.0.2 10.0.0.3")
	d.deliver(1)
	d.wantAddresses("of an external name", " / ")
	d.deliver(1)
	d.wantAddresses("of pods again", "10.0.0.1 10.0.0.2 10.0.0.3 / 10.0.0.1 10.0.0.2 10.0.0.3")
	want := `
# HELP portolan_endpointctl_writes_total Objects written, by kind and operation.
# TYPE portolan_endpointctl_writes_total counter
portolan_endpointctl_writes_total{kind="EndpointSlice",op="create"} 2
portolan_endpointctl_writes_total{kind="EndpointSlice",op="delete"} 1
portolan_endpointctl_writes_total{kind="EndpointSlice",op="update"} 2
portolan_endpointctl_writes_total{kind="Endpoints",op="create"} 2
portolan_endpointctl_writes_total{kind="Endpoints",op="delete"} 1
portolan_endpointctl_writes_total{kind="Endpoints",op="update"} 2
`
	if err := testutil.GatherAndCompare(d.metrics, strings.NewReader(want), "portolan_endpointctl_writes_total"); err != nil {
		t.Error(err)
	}
}

// TestWhatSomebodyDeletedIsMadeAnew deletes objects of the controller without delivering the
// deletion. It checks that the sync that notices it fails, and that the next one creates the object
// again.
func TestWhatSomebodyDeletedIsMadeAnew(t *testing.T) {
	for _, deleted := range []string{"EndpointSlice", "Endpoints"} {
		t.Run(deleted, func(t *testing.T) {
			d := newManual(t, service(), pod("p1", "10.0.0.1"), pod("p2", "10.0.0.2"))
			d.deliver(2)
			d.wantAddresses("after the first pod", "10.0.0.1 / 10.0.0.1")
			for _, o := range d.registry.Log.Objects() {
				if object.KindOf(o) == deleted {
					d.registry.Delete(o)
				}
			}
			d.deliver(1)
			if err := d.sync(); apierr.Code(err) != codes.NotFound {
				t.Errorf("the sync that found out: %v, want NotFound", err)
			}
			d.wantAddresses("after the next sync", "10.0.0.1 10.0.0.2 / 10.0.0.1 10.0.0.2")
		})
	}
}

// TestAWriteThatFailsFailsTheSync checks that a sync fails, and is therefore repeated, if any of
// its writes fails.
func TestAWriteThatFailsFailsTheSync(t *testing.T) {
	for _, kind := range []string{"EndpointSlice", "Endpoints"} {
		for step, op := range []string{opCreate, opUpdate, opDelete} {
			t.Run(op+" "+kind, func(t *testing.T) {
				d := newManual(t, service(), pod("p1", "10.0.0.1"), pod("p2", "10.0.0.2"), external())
				d.registry.Fail(func(tried string, o object.Object) error {
					if tried == op && object.KindOf(o) == kind {
						return registrytest.Unavailable
					}
					return nil
				})
				d.deliver(1)
				for range step { // the writes before it succeed
					d.deliver(1)
					if err := d.sync(); err != nil {
						t.Fatal(err)
					}
				}
				d.deliver(1)
				if err := d.sync(); apierr.Code(err) != codes.Unavailable {
					t.Errorf("the sync returned %v", err)
				}
				if _, failed := d.controller.Failure(web); !failed {
					t.Error("the service does not count as failing")
				}
				d.registry.Fail(nil)
				d.wantAddresses("once writes succeed", []string{"10.0.0.1 / 10.0.0.1", "10.0.0.1 10.0.0.2 / 10.0.0.1 10.0.0.2", " / "}[step])
				if failure, failed := d.controller.Failure(web); failed {
					t.Errorf("the service still counts as failing: %+v", failure)
				}
			})
		}
	}
}
