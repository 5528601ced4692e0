package cli

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/client"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

// applyServer is a registry that applies every object except the namespaces whose name begins with
// "bad".
type applyServer struct {
	registryv1.UnimplementedApplyServiceServer
	registryv1.UnimplementedBulkServiceServer

	mu    sync.Mutex
	calls []int // objects of each call; guarded by mu
}

func (s *applyServer) note(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, n)
}

func (s *applyServer) Apply(context.Context, *registryv1.ApplyRequest) (*registryv1.ApplyResponse, error) {
	s.note(1)
	return &registryv1.ApplyResponse{Outcome: registryv1.ApplyOutcome_APPLY_OUTCOME_CREATED}, nil
}

func (s *applyServer) Write(_ context.Context, req *registryv1.WriteRequest) (*registryv1.WriteResponse, error) {
	s.note(len(req.GetOperations()))
	answer := &registryv1.WriteResponse{}
	for i, operation := range req.GetOperations() {
		result := &registryv1.WriteResult{Outcome: registryv1.WriteOutcome(int32(registryv1.WriteOutcome_WRITE_OUTCOME_CREATED) + int32(i%3)), Warnings: []string{"beware"}}
		if strings.HasPrefix(operation.GetApply().GetNamespace().GetMetadata().GetName(), "bad") {
			result = &registryv1.WriteResult{Outcome: registryv1.WriteOutcome_WRITE_OUTCOME_FAILED, Error: &registryv1.WriteError{Code: int32(codes.PermissionDenied), Message: "no bad ones"}}
		}
		answer.Results = append(answer.Results, result)
	}
	return answer, nil
}

// run applies namespaces and returns what is printed.
func (s *applyServer) run(t *testing.T, objects []object.Object) (out, errOut string, err error) {
	t.Helper()
	conn := kittest.Conn(t, func(server grpc.ServiceRegistrar) {
		registryv1.RegisterApplyServiceServer(server, s)
		registryv1.RegisterBulkServiceServer(server, s)
	})
	var o, e bytes.Buffer
	r := newApplyRun(&bulkOperation{out: &o, errOut: &e, total: len(objects), verb: "applied"}, client.New(conn), true)
	r.Apply(t.Context(), objects)
	err = r.result()
	return o.String(), e.String(), err
}

func namespaces(n int, prefix, annotation string) []object.Object {
	var all []object.Object
	for i := range n {
		all = append(all, &corev1.Namespace{Metadata: &corev1.ObjectMeta{Name: fmt.Sprint(prefix, i), Annotations: map[string]string{"a": annotation}}})
	}
	return all
}

// TestManyObjectsAreAppliedTogether checks how objects are divided into calls.
func TestManyObjectsAreAppliedTogether(t *testing.T) {
	for name, c := range map[string]struct {
		objects []object.Object
		want    []int
	}{
		"few":             {namespaces(3, "n", ""), []int{1, 1, 1}},
		"many":            {namespaces(1100, "n", ""), []int{100, 500, 500}},
		"large":           {namespaces(10, "n", strings.Repeat("x", 900_000)), []int{2, 2, 2, 2, 2}},
		"several kinds":   {append(namespaces(12, "n", ""), &corev1.Node{Metadata: &corev1.ObjectMeta{Name: "n"}}), []int{1, 12}},
		"nothing at hand": {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			server := &applyServer{}
			out, errOut, err := server.run(t, c.objects)
			if err != nil {
				t.Fatalf("%v\n%s", err, errOut)
			}
			slices.Sort(server.calls)
			if !slices.Equal(server.calls, c.want) || strings.Count(out, "\n") != len(c.objects) {
				t.Errorf("calls of %d objects, want %d:\n%s", server.calls, c.want, out)
			}
		})
	}
}

// TestEveryAppliedObjectHasItsOutcome checks what is printed of objects that are applied together.
func TestEveryAppliedObjectHasItsOutcome(t *testing.T) {
	out, errOut, err := (&applyServer{}).run(t, append(namespaces(9, "n", ""), namespaces(2, "bad", "")...))
	if want := "namespace/n0 created (dry run)\nnamespace/n1 configured (dry run)\nnamespace/n2 unchanged (dry run)\nnamespace/n3 created (dry run)\n"; !strings.HasPrefix(out, want) {
		t.Errorf("it prints\n%s\nwant\n%s", out, want)
	}
	if !strings.Contains(errOut, "warning: namespace/n0: beware\n") || !strings.Contains(errOut, "2 of 11 objects could not be applied\n") {
		t.Errorf("it warns\n%s", errOut)
	}
	if err == nil || !strings.Contains(err.Error(), "namespace/bad0: ") || !strings.Contains(err.Error(), "no bad ones") || !strings.Contains(err.Error(), "namespace/bad1: ") {
		t.Errorf("the error is %v", err)
	}
}
