package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"portolan.dev/tools/gen/compile"
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

// plain is a file without methods of its own.
const plain = `syntax = "proto3";
package toy.v1;
option go_package = "example.org/toy/v1;toyv1";
message Plain { string name = 1; }
`

func TestWriteThenCheck(t *testing.T) {
	bin := t.TempDir()
	install := exec.Command("go", "install", "tool")
	install.Env = append(os.Environ(), "GOWORK=off", "GOBIN="+bin)
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("install the plugins: %v\n%s", err, out)
	}
	root, out := t.TempDir(), t.TempDir()
	put(t, root, "toy/v1/toy.proto", toy)
	put(t, root, "toy/v1/coded.proto", strings.ReplaceAll(plain, "Plain", "Coded"))
	put(t, root, "toy/v1/plain.proto", plain)
	put(t, out, "v1/gone.pb.go", "package toyv1\n")
	p := project{root: root, out: out, module: "example.org/toy", bin: bin,
		coded: []string{"toy/v1/coded.proto"}, fast: []string{"toy/v1/toy.proto"}}

	if err := p.run(t.Context(), true); err == nil {
		t.Error("check passed with nothing generated")
	}
	if err := p.run(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	if err := p.run(t.Context(), true); err != nil {
		t.Errorf("check after write: %v", err)
	}
	have, err := compile.FilesBelow(out, ".pb.go")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(have, " "), "v1/coded.pb.go v1/coded_vtproto.pb.go v1/plain.pb.go v1/toy.pb.go v1/toy_grpc.pb.go v1/toy_vtproto.pb.go"; got != want {
		t.Errorf("files: got %q, want %q", got, want)
	}
	goFile := read(t, out, "v1/toy.pb.go")
	if !strings.Contains(goFile, "// Thing is commented.\ntype Thing struct") {
		t.Error("the comment of a message did not become its Go doc")
	}
	vt := read(t, out, "v1/toy_vtproto.pb.go")
	for _, method := range []string{"MarshalVT(", "UnmarshalVT(", "SizeVT(", "CloneVT(", "EqualVT("} {
		if !strings.Contains(vt, "(m *Thing) "+method) && !strings.Contains(vt, "(this *Thing) "+method) {
			t.Errorf("%s is missing", method)
		}
	}
	if coded := read(t, out, "v1/coded_vtproto.pb.go"); !strings.Contains(coded, "MarshalVT(") || strings.Contains(coded, "CloneVT(") {
		t.Error("a file that is listed as coded has other methods")
	}

	put(t, out, "v1/toy.pb.go", goFile+"\n")
	if err := p.run(t.Context(), true); err == nil {
		t.Error("check passed with an edited file")
	}
	p.fast = append(p.fast, "toy/v2")
	if err := p.run(t.Context(), true); err == nil || !strings.Contains(err.Error(), "toy/v2") {
		t.Errorf("a folder that does not exist is listed as fast: got %v", err)
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
