package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const toy = `// A toy contract.
syntax = "proto3";
package toy.v1;
import "google/protobuf/timestamp.proto";
option go_package = "example.org/toy/v1;toyv1";
// Thing is commented.
message Thing { string name = 1; google.protobuf.Timestamp at = 2; optional int32 n = 3; map<string, Thing> more = 4; }
// ThingService serves things.
service ThingService { rpc GetThing(GetThingRequest) returns (stream GetThingResponse); }
message GetThingRequest {}
message GetThingResponse { Thing thing = 1; }
`

func TestWriteThenCheck(t *testing.T) {
	bin := t.TempDir()
	install := exec.Command("go", "install", "tool")
	install.Env = append(os.Environ(), "GOWORK=off", "GOBIN="+bin)
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("install the plugins: %v\n%s", err, out)
	}
	root := t.TempDir()
	put(t, root, "toy/v1/toy.proto", toy)
	put(t, root, "toy/v1/gone.pb.go", "package toyv1\n")

	if err := run(t.Context(), root, bin, true); err == nil {
		t.Error("check passed with nothing generated")
	}
	if err := run(t.Context(), root, bin, false); err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), root, bin, true); err != nil {
		t.Errorf("check after write: %v", err)
	}
	have, err := filesBelow(root, ".pb.go")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(have, " "), "toy/v1/toy.pb.go toy/v1/toy_grpc.pb.go toy/v1/toy_vtproto.pb.go"; got != want {
		t.Errorf("files: got %q, want %q", got, want)
	}
	goFile := read(t, root, "toy/v1/toy.pb.go")
	if !strings.Contains(goFile, "// Thing is commented.\ntype Thing struct") {
		t.Error("the comment of a message did not become its Go doc")
	}
	vt := read(t, root, "toy/v1/toy_vtproto.pb.go")
	for _, method := range []string{"MarshalVT(", "UnmarshalVT(", "SizeVT(", "CloneVT(", "EqualVT("} {
		if !strings.Contains(vt, "(m *Thing) "+method) && !strings.Contains(vt, "(this *Thing) "+method) {
			t.Errorf("%s is missing", method)
		}
	}

	put(t, root, "toy/v1/toy.pb.go", goFile+"\n")
	if err := run(t.Context(), root, bin, true); err == nil {
		t.Error("check passed with an edited file")
	}
}

func TestCompileNamesEveryFault(t *testing.T) {
	root := t.TempDir()
	put(t, root, "a.proto", "syntax = \"proto3\";\nmessage A { Nowhere one = 1;\n  Missing two = 2; }\n")
	_, err := compile(t.Context(), root)
	if err == nil {
		t.Fatal("a broken contract compiled")
	}
	for _, want := range []string{"a.proto:2:13", "Nowhere", "a.proto:3:3", "Missing"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not name %q", err, want)
		}
	}
}

func put(t *testing.T, root, name, content string) {
	t.Helper()
	path := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, root, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
