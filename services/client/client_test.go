package client

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"portolan.dev/services/kinds"
)

// TestContractFollowsTheRule compares the names from which calls are built with the API, for every
// kind and verb.
func TestContractFollowsTheRule(t *testing.T) {
	for _, kind := range kinds.All {
		for _, verb := range []kinds.Verb{kinds.Create, kinds.Get, kinds.List, kinds.Watch, kinds.Update, kinds.UpdateStatus, kinds.Delete} {
			if verb == kinds.UpdateStatus && !kind.HasStatus() {
				continue
			}
			method, path := kind.Method(verb), strings.TrimPrefix(kind.FullMethod(verb), "/")
			name := protoreflect.FullName(strings.ReplaceAll(path, "/", "."))
			found, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
			if err != nil {
				t.Errorf("%s: %v", path, err)
				continue
			}
			descriptor, ok := found.(protoreflect.MethodDescriptor)
			if !ok {
				t.Errorf("%s is no method", path)
				continue
			}
			if got := descriptor.Input().Name(); string(got) != method+"Request" {
				t.Errorf("%s takes %s", path, got)
			}
			if strings.HasPrefix(method, "Watch") {
				method = kind.Name + "Change"
			} else {
				method += "Response"
			}
			if message := newMessage(method).Descriptor(); kind.FieldIn(message) == nil {
				t.Errorf("%s has no %s", message.FullName(), kind.Name)
			}
		}
	}
}
