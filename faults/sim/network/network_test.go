package network

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/faults/sim/netem"
)

// server answers each CreatePod call with the pod of the request.
type server struct {
	mu    sync.Mutex
	names []string // guarded by mu; the names of the created pods
}

// created returns the names of the created pods.
func (s *server) created() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.names)
}

func (s *server) Call(_ context.Context, _ string, request, reply proto.Message) error {
	req, _ := request.(*registryv1.CreatePodRequest)
	s.mu.Lock()
	s.names = append(s.names, req.GetPod().GetMetadata().GetName())
	s.mu.Unlock()
	resp, _ := reply.(*registryv1.CreatePodResponse)
	resp.Pod = req.GetPod()
	return nil
}

// create asks the server to create a pod. After the call it changes the pod's name in the request,
// as a caller may.
func create(t *testing.T, w *netem.Emulator, s Server, timeout time.Duration) (*corev1.Pod, error) {
	t.Helper()
	conn, err := New("daemon", w, s, NewHandlers(func(grpc.ServiceRegistrar) {})).Dial("registry")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	pod := &corev1.Pod{Metadata: &corev1.ObjectMeta{Name: "web"}}
	resp, err := registryv1.NewPodServiceClient(conn).CreatePod(ctx, &registryv1.CreatePodRequest{Pod: pod})
	pod.Metadata.Name = "other"
	return resp.GetPod(), err
}

func TestDelayedRequestIsExecutedAfterCallerGaveUp(t *testing.T) {
	const delay = 20 * time.Second
	for name, c := range map[string]struct {
		timeout time.Duration
		want    codes.Code
	}{
		"gave up": {time.Second, codes.DeadlineExceeded},
		"broken":  {time.Hour, codes.Unavailable},
	} {
		synctest.Test(t, func(t *testing.T) {
			w, s := netem.New(1), &server{}
			w.Add(netem.Impairment{LinkPrefix: "grpc daemon", Stall: true}, delay)
			if _, err := create(t, w, s, c.timeout); status.Code(err) != c.want || len(s.created()) != 0 {
				t.Errorf("%s: got error %v and created pods %q, want %s and none", name, err, s.created(), c.want)
			}
			time.Sleep(delay)
			if len(s.created()) != 1 || s.created()[0] != "web" {
				t.Errorf("%s: got created pods %q after the delay, want web", name, s.created())
			}
		})
	}
}

func TestReplyWithoutImpairment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if pod, err := create(t, netem.New(1), &server{}, time.Second); err != nil || pod.GetMetadata().GetName() != "web" {
			t.Errorf("got %v, %v, want the pod web", pod, err)
		}
	})
}
