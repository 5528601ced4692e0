package access_test

import (
	"strings"
	"testing"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/access"
	"portolan.dev/services/kinds"
	"portolan.dev/services/object"
)

// TestOperationsHaveRows checks that every operation of a bulk call that can be made is decided by a
// row of the table, and that the others have no method.
func TestOperationsHaveRows(t *testing.T) {
	table, without := access.Methods(), 0
	for _, kind := range kinds.All {
		envelope := func() *corev1.Object { return object.Wrap(kind.New()) }
		for verb, operation := range map[string]*registryv1.WriteOperation{
			"create": {Write: &registryv1.WriteOperation_Create{Create: envelope()}},
			"update": {Write: &registryv1.WriteOperation_Update{Update: envelope()}},
			"status": {Write: &registryv1.WriteOperation_UpdateStatus{UpdateStatus: envelope()}},
			"apply":  {Write: &registryv1.WriteOperation_Apply{Apply: envelope()}},
			"delete": {Write: &registryv1.WriteOperation_Delete{Delete: &registryv1.DeleteOperation{Kind: kind.Name, Name: "a"}}},
		} {
			target := kinds.OperationOf(operation)
			if target.Kind != kind || kind.Namespaced != (target.Key.Namespace == object.DefaultNamespace) {
				t.Errorf("%s of a %s is on %v", verb, kind.Name, target.Key)
			}
			method := target.Method()
			if verb == "status" && !kind.HasStatus() {
				without++
				if method != "" {
					t.Errorf("the status of a %s is updated by %s", kind.Name, method)
				}
				continue
			}
			service, name, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
			if len(table[service][name]) == 0 {
				t.Errorf("%s of a %s: no row for %q", verb, kind.Name, method)
			}
		}
	}
	if without == 0 {
		t.Error("every kind has a status, so this test shows less than it says")
	}
	for _, operation := range []*registryv1.WriteOperation{
		nil, {}, {Write: &registryv1.WriteOperation_Create{Create: &corev1.Object{}}}, {Write: &registryv1.WriteOperation_Delete{Delete: &registryv1.DeleteOperation{Kind: "services"}}},
	} {
		if method := kinds.OperationOf(operation).Method(); method != "" {
			t.Errorf("%v is made by %s", operation, method)
		}
	}
}
