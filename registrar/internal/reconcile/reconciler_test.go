package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/registrar/internal/objects"
	"portolan.dev/registrar/internal/view"
	"portolan.dev/registrar/source"
	"portolan.dev/services/changes"
	"portolan.dev/services/kit/guard/guardtest"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

// fakeRegistry is a registry with the pods of one registrar. It has no clock, so pods that drain stay.
type fakeRegistry struct {
	grpc.ClientConnInterface
	reconciler *Reconciler

	mu       sync.Mutex
	pods     map[object.Name]*corev1.Pod
	revision uint64
	deleted  []string                 // names of deleted pods in order, with "drains" or "at once"
	fail     func(req any) error      // decides on each call; nil: none fails
	services map[object.Name]bool     // that were created
	warnings map[object.Name][]string // reasons of Events, by service
}

// warn records an Event.
func (f *fakeRegistry) warn(service object.Name, reason, _ string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.warnings[service] = append(f.warnings[service], reason)
}

// failWith makes the calls fail for which the function returns an error.
func (f *fakeRegistry) failWith(fail func(req any) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail = fail
}

// Invoke implements grpc.ClientConnInterface.
func (f *fakeRegistry) Invoke(ctx context.Context, _ string, req, reply any, _ ...grpc.CallOption) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		if err := f.fail(req); err != nil {
			return err
		}
	}
	var pod *corev1.Pod
	switch req := req.(type) {
	case *registryv1.CreateServiceRequest:
		f.services[object.NameOf(req.GetService())] = true
		return nil
	case *registryv1.GetPodRequest:
		if pod = f.pods[object.Name{Namespace: req.GetNamespace(), Name: req.GetName()}]; pod == nil {
			return status.Error(codes.NotFound, "no such pod")
		}
		answerWith(reply, pod)
		return nil
	case *registryv1.CreatePodRequest:
		if f.pods[object.NameOf(req.GetPod())] != nil {
			return status.Error(codes.AlreadyExists, "there is such a pod")
		}
		pod = req.GetPod().CloneVT()
		pod.Metadata.Uid = fmt.Sprint("uid-", f.revision)
		pod.Status = nil
	case *registryv1.UpdatePodRequest:
		pod = req.GetPod().CloneVT()
	case *registryv1.UpdatePodStatusRequest:
		pod = req.GetPod().CloneVT()
	case *registryv1.DeletePodRequest:
		name := object.Name{Namespace: req.GetNamespace(), Name: req.GetName()}
		if f.pods[name] == nil {
			return status.Error(codes.NotFound, "no such pod")
		}
		if req.GracePeriodSeconds == nil {
			f.deleted = append(f.deleted, name.Name+" drains")
			pod = f.pods[name].CloneVT()
			pod.Metadata.DeletionTimestamp = timestamppb.Now()
			break
		}
		f.deleted = append(f.deleted, name.Name+" at once")
		return f.put(ctx, name, nil)
	default:
		return status.Errorf(codes.Unimplemented, "%T", req)
	}
	if err := f.put(ctx, object.NameOf(pod), pod); err != nil {
		return err
	}
	answerWith(reply, pod)
	return nil
}

// answerWith sets the pod of a response.
func answerWith(reply any, pod *corev1.Pod) {
	answer := reply.(proto.Message).ProtoReflect()
	answer.Set(answer.Descriptor().Fields().ByName("pod"), protoreflect.ValueOfMessage(pod.CloneVT().ProtoReflect()))
}

// put stores a pod, or deletes it if it is nil, and tells the reconciler. The caller holds mu.
func (f *fakeRegistry) put(ctx context.Context, name object.Name, pod *corev1.Pod) error {
	f.revision++
	change := changes.Change{Kind: "Pod", Key: object.Key{Kind: "Pod", Namespace: name.Namespace, Name: name.Name}}
	delete(f.pods, name)
	if pod != nil {
		pod.Metadata.ResourceVersion = f.revision
		f.pods[name], change.New = pod, pod.CloneVT()
	}
	return f.reconciler.Apply(ctx, []changes.Change{change}, f.revision)
}

const owner = "registrar/n1"

// world is a reconciler with the sources docker and systemd, which runs beside the test.
type world struct {
	*fakeRegistry
	t       *testing.T
	metrics *prometheus.Registry
	guard   *guardtest.World
}

// newWorld returns a world with pods of a former process of the registrar.
func newWorld(t *testing.T, pods ...*corev1.Pod) *world {
	t.Helper()
	w := &world{&fakeRegistry{pods: map[object.Name]*corev1.Pod{}, services: map[object.Name]bool{}, warnings: map[object.Name][]string{}}, t, prometheus.NewRegistry(), guardtest.New(t)}
	w.reconciler = New(Config{
		Objects: objects.Builder{Node: "n1", Owner: owner, Namespace: "default"}, Sources: []string{"docker", "systemd"},
		CreateServices: true, Registry: w.fakeRegistry, View: view.New(w.guard.Guard), Guard: w.guard.Guard, Warn: w.warn, Log: kittest.Logger(t), Metrics: w.metrics,
	})
	var batch []changes.Change
	for _, pod := range pods {
		w.revision++
		pod.Metadata.ResourceVersion = w.revision
		w.pods[object.NameOf(pod)] = pod
		batch = append(batch, changes.Change{Kind: "Pod", Key: object.KeyOf(pod), New: pod})
	}
	kittest.Run(t, "reconciler", w.reconciler.Run)
	if err := w.reconciler.Apply(t.Context(), batch, w.revision); err != nil {
		t.Fatal(err)
	}
	return w
}

// expect fails unless these pods were deleted since the last call. It waits long enough for a repeated write.
func (w *world) expect(event string, want ...string) {
	w.t.Helper()
	time.Sleep(time.Minute)
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.Sort(w.deleted)
	if !slices.Equal(w.deleted, want) {
		w.t.Errorf("after %s, deleted are %q, want %q", event, w.deleted, want)
	}
	w.deleted = nil
}

// pod returns the only pod.
func (w *world) pod() *corev1.Pod {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.pods) != 1 {
		w.t.Fatalf("the pods are %v, want one", w.pods)
	}
	return slices.Collect(maps.Values(w.pods))[0]
}

// left returns a pod that a former process of the registrar has written.
func left(name, from string) *corev1.Pod {
	return &corev1.Pod{Metadata: &corev1.ObjectMeta{
		Namespace: "default", Name: name, Uid: name, Labels: map[string]string{object.LabelSource: from}, Annotations: map[string]string{object.AnnotationWorkload: owner},
	}}
}

// workload returns a report with one workload.
func workload(change ...func(*source.Workload)) source.Report {
	w := source.Workload{ID: "1", Name: "web", Service: "web", Addresses: []string{"172.17.0.2"}, Ports: []source.Port{{Name: "main", Number: 80, Protocol: corev1.Protocol_PROTOCOL_TCP}}, Ready: true}
	for _, f := range change {
		f(&w)
	}
	return source.Report{Workloads: []source.Workload{w}}
}

// TestPodsStayUntilTheirSourceHasReported starts a registrar with pods of its former process. A pod may be deleted only
// once its source has reported without an error: before, its container may run. If the registrar did not wait, each of
// its restarts would take all backends of the node out of service until the engine has answered.
func TestPodsStayUntilTheirSourceHasReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, left("container", "docker"), left("unit", "systemd"), left("other", "podman"))
		w.expect("the start", "other at once") // its source is not configured any more
		w.reconciler.Report("docker", source.Report{Err: errors.New("the engine does not answer")})
		w.expect("a report with an error")
		if err := w.reconciler.Apply(t.Context(), []changes.Change{{Kind: "Pod", Key: object.KeyOf(left("unit", "systemd")), New: left("unit", "systemd")}}, 9); err != nil {
			t.Fatal(err)
		}
		w.expect("a change of a pod")
		w.reconciler.Report("docker", workload())
		w.expect("the first report of one source", "container at once")
		w.reconciler.Report("systemd", source.Report{})
		w.expect("the first report of the other", "unit at once")
	})
}

// TestPodsStayWhileTheirSourceFails checks that a source that cannot read its workloads any more keeps its pods: their
// containers may well run.
func TestPodsStayWhileTheirSourceFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.reconciler.Report("docker", workload())
		w.expect("the first report")
		name := object.NameOf(w.pod())
		w.reconciler.Report("docker", source.Report{Err: errors.New("the engine does not answer")})
		w.expect("a report with an error")
		w.reconciler.Report("docker", source.Report{})
		w.expect("a report without the workload", name.Name+" at once")
	})
}

// TestPodsDrainWhileTheirWorkloadStops checks the end of a pod: it drains from the signal to stop, is removed when the
// workload has ended, and is replaced if the workload runs again before that.
func TestPodsDrainWhileTheirWorkloadStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.reconciler.Report("docker", workload())
		w.expect("the first report")
		first := w.pod()
		name := object.NameOf(first)
		stops := workload(func(w *source.Workload) { w.Terminating = true })
		w.reconciler.Report("docker", stops)
		w.expect("the signal to stop", name.Name+" drains")
		w.reconciler.Report("docker", workload())
		w.expect("a new start", name.Name+" at once")
		if after := w.pod().GetMetadata(); after.GetUid() == first.GetMetadata().GetUid() || after.GetDeletionTimestamp() != nil {
			t.Errorf("after a new start, the pod is %v", after)
		}
		w.reconciler.Report("docker", stops)
		w.expect("another signal", name.Name+" drains")
		w.reconciler.Report("docker", source.Report{})
		w.expect("the end of the workload", name.Name+" at once")
	})
}

// TestFailedWritesAreTriedAgain lets calls of the registry fail for a minute. The pod must be registered afterwards
// without another report: nothing else would make it due. A refusal is also an Event about the service, once, because
// only its owner can mend it.
func TestFailedWritesAreTriedAgain(t *testing.T) {
	web := object.Name{Namespace: "default", Name: "web"}
	isService := func(req any) bool { _, ok := req.(*registryv1.CreateServiceRequest); return ok }
	isPod := func(req any) bool { _, ok := req.(*registryv1.CreatePodRequest); return ok }
	isStatus := func(req any) bool { _, ok := req.(*registryv1.UpdatePodStatusRequest); return ok }
	for name, c := range map[string]struct {
		fails   func(req any) bool
		code    codes.Code
		warning string // reason of the Event; "": none
	}{
		"the service":               {isService, codes.Unavailable, ""},
		"the service is refused":    {isService, codes.PermissionDenied, ReasonRefused},
		"the pod":                   {isPod, codes.Unavailable, ""},
		"the pod is refused":        {isPod, codes.InvalidArgument, ReasonRefused},
		"the status":                {isStatus, codes.Unavailable, ""},
		"an earlier version counts": {isStatus, codes.Aborted, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.failWith(func(req any) error {
					if c.fails(req) {
						return status.Error(c.code, "no")
					}
					return nil
				})
				w.reconciler.Report("docker", workload())
				w.expect("a report")
				var warnings []string
				if c.warning != "" {
					warnings = []string{c.warning}
				}
				if got := w.warnings[web]; !slices.Equal(got, warnings) {
					t.Errorf("the Events are %q, want %q", got, warnings)
				}
				if c.fails(&registryv1.CreatePodRequest{}) && len(w.pods) > 0 {
					t.Errorf("there is a pod that was not created: %v", w.pods)
				}
				w.failWith(nil)
				w.expect("the end of the failures")
				if !w.services[web] || object.Condition(w.pod().GetStatus().GetConditions(), object.ConditionSourceReady) == nil {
					t.Errorf("the services are %v, the pod is %v", w.services, w.pod())
				}
			})
		})
	}
}

// TestAPodOfAnotherOwnerStays registers a workload while a pod of its name exists that the view does not show, because
// it belongs to another owner. The registrar must not write it.
func TestAPodOfAnotherOwnerStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		report := workload()
		name := w.reconciler.cfg.Objects.PodName("docker", &report.Workloads[0])
		foreign := left(name.Name, "docker")
		foreign.Metadata.Annotations[object.AnnotationWorkload] = "registrar/n2"
		w.pods[name] = foreign
		w.reconciler.Report("docker", report)
		w.expect("a report")
		if got := w.pod(); !proto.Equal(got, foreign) || len(w.warnings) != 1 {
			t.Errorf("the pod of another owner is %v, the Events are %v", got, w.warnings)
		}
		foreign.Metadata.Annotations[object.AnnotationWorkload] = owner // as if the view were behind
		w.expect("a while")
		if got := w.pod(); object.Condition(got.GetStatus().GetConditions(), object.ConditionSourceReady) == nil {
			t.Errorf("its own pod is %v", got)
		}
	})
}

// TestABoundRegistrarStaysInItsNamespace reports workloads of two namespaces to a registrar that may write in one only.
// The other workload is a problem of the source, because the registry would refuse its pod at each try.
func TestABoundRegistrarStaysInItsNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.reconciler.cfg.Bound = "shop"
		report := workload(func(l *source.Workload) { l.ID, l.Namespace = "2", "shop" })
		report.Workloads = append(report.Workloads, workload().Workloads...)
		w.reconciler.Report("docker", report)
		w.expect("a report")
		if namespace := w.pod().GetMetadata().GetNamespace(); namespace != "shop" {
			t.Errorf("there is a pod in the namespace %q", namespace)
		}
		for _, one := range w.reconciler.Status() {
			if refused := len(one.Problems) == 1 && one.Problems[0].Reason == objects.ReasonOtherNamespace; refused != (one.Name == "docker") {
				t.Errorf("the problems of %s are %v", one.Name, one.Problems)
			}
		}
	})
}

// TestSyncsAreCounted checks that the metric tells writes that failed from those that did not.
func TestSyncsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.failWith(func(any) error { return status.Error(codes.Unavailable, "no") })
		w.reconciler.Report("docker", workload())
		w.expect("a report")
		count := func(result string) float64 {
			families, err := w.metrics.Gather()
			if err != nil {
				t.Fatal(err)
			}
			for _, family := range families {
				for _, metric := range family.GetMetric() {
					if family.GetName() == "portolan_registrar_syncs_total" && metric.GetLabel()[0].GetValue() == result {
						return metric.GetCounter().GetValue()
					}
				}
			}
			t.Fatalf("there is no metric of the result %q", result)
			return 0
		}
		if ok, failed := count("ok"), count("error"); ok != 0 || failed == 0 {
			t.Errorf("%v syncs succeeded and %v failed, and each failed", ok, failed)
		}
		w.failWith(nil)
		before := count("error")
		w.expect("the end of the failures")
		if ok, failed := count("ok"), count("error"); ok == 0 || failed != before {
			t.Errorf("%v syncs succeeded and %v failed after the %v before", ok, failed, before)
		}
	})
}
