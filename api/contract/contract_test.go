package contract

import (
	"cmp"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	_ "portolan.dev/api/allocator/v1"
	_ "portolan.dev/api/core/v1"
	_ "portolan.dev/api/dns/v1"
	_ "portolan.dev/api/edge/v1"
	_ "portolan.dev/api/endpoints/v1"
	_ "portolan.dev/api/loadbalancer/v1"
	_ "portolan.dev/api/nodeagent/v1"
	_ "portolan.dev/api/registrar/v1"
	_ "portolan.dev/api/registry/v1"
)

var update = flag.Bool("update", false, "record the contract of this tree as the released one")

// released is the file of the recorded contract.
const released = "testdata/released.binpb"

// TestKeepsWhatWasReleased checks that programs with this tree's contract and programs of the last
// release understand each other.
func TestKeepsWhatWasReleased(t *testing.T) {
	content, err := os.ReadFile(released)
	if *update && os.IsNotExist(err) {
		record(t)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	set := &descriptorpb.FileDescriptorSet{}
	if err := proto.Unmarshal(content, set); err != nil {
		t.Fatal(err)
	}
	if ours := len(ofOurs(filesOf(t, set))); ours < 20 {
		t.Fatalf("%s has %d files of ours: it is not the whole contract", released, ours)
	}
	for _, broken := range breaksOf(ofOurs(filesOf(t, set)), inTree) {
		t.Error(broken)
	}
	if *update && !t.Failed() {
		record(t)
	}
}

// TestEveryFileIsLinkedIn checks that this test imports the generated code of every .proto file,
// because descriptors that are not linked in would not be compared.
func TestEveryFileIsLinkedIn(t *testing.T) {
	sources, err := filepath.Glob("testdata/proto/portolan/*/*/*.proto")
	if err != nil || len(sources) < 20 {
		t.Fatalf("%d files, %v", len(sources), err)
	}
	for _, source := range sources {
		name, _ := filepath.Rel("testdata/proto", source)
		if _, err := protoregistry.GlobalFiles.FindFileByPath(filepath.ToSlash(name)); err != nil {
			t.Errorf("%s: import its package in this test: %v", name, err)
		}
	}
}

// record writes the contract of this tree with all its imports.
func record(t *testing.T) {
	t.Helper()
	set := &descriptorpb.FileDescriptorSet{}
	seen := map[string]bool{}
	var add func(file protoreflect.FileDescriptor)
	add = func(file protoreflect.FileDescriptor) {
		if seen[file.Path()] {
			return
		}
		seen[file.Path()] = true
		for i := range file.Imports().Len() {
			add(file.Imports().Get(i).FileDescriptor)
		}
		set.File = append(set.File, protodesc.ToFileDescriptorProto(file))
	}
	var all []protoreflect.FileDescriptor
	protoregistry.GlobalFiles.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		all = append(all, file)
		return true
	})
	all = ofOurs(all)
	slices.SortFunc(all, func(a, b protoreflect.FileDescriptor) int { return cmp.Compare(a.Path(), b.Path()) })
	for _, file := range all {
		add(file)
	}
	content, err := proto.MarshalOptions{Deterministic: true}.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(released, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func inTree(name protoreflect.FullName) protoreflect.Descriptor {
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
	if err != nil {
		return nil
	}
	return found
}

func filesOf(t *testing.T, set *descriptorpb.FileDescriptorSet) []protoreflect.FileDescriptor {
	t.Helper()
	files, err := protodesc.NewFiles(set)
	if err != nil {
		t.Fatal(err)
	}
	var all []protoreflect.FileDescriptor
	files.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		all = append(all, file)
		return true
	})
	return all
}

func ofOurs(files []protoreflect.FileDescriptor) []protoreflect.FileDescriptor {
	return slices.DeleteFunc(files, func(file protoreflect.FileDescriptor) bool { return !strings.HasPrefix(file.Path(), "portolan/") })
}

// TestBreaks breaks each rule once in a small contract.
func TestBreaks(t *testing.T) {
	tests := map[string]struct {
		change func(*descriptorpb.FileDescriptorProto)
		want   string // empty means that the change is allowed
	}{
		"nothing": {func(*descriptorpb.FileDescriptorProto) {}, ""},
		"a new field": {func(f *descriptorpb.FileDescriptorProto) {
			f.MessageType[0].Field = append(f.MessageType[0].Field, field("more", 9, str))
		}, ""},
		"a new message": {func(f *descriptorpb.FileDescriptorProto) {
			f.MessageType = append(f.MessageType, &descriptorpb.DescriptorProto{Name: proto.String("C")})
		}, ""},
		"message gone": {func(f *descriptorpb.FileDescriptorProto) { f.MessageType = f.MessageType[:1]; f.Service = nil }, "p.B: it is gone"},
		"field gone":   {func(f *descriptorpb.FileDescriptorProto) { f.MessageType[0].Field = f.MessageType[0].Field[1:] }, "p.A.name: field 1 is gone"},
		"renamed":      {func(f *descriptorpb.FileDescriptorProto) { f.MessageType[0].Field[0].Name = proto.String("title") }, "the name of field 1 was name and is title"},
		"JSON renamed": {func(f *descriptorpb.FileDescriptorProto) { f.MessageType[0].Field[0].JsonName = proto.String("title") }, "the name in JSON of field 1 was name and is title"},
		"renumbered":   {func(f *descriptorpb.FileDescriptorProto) { f.MessageType[0].Field[0].Number = proto.Int32(8) }, "p.A.name: field 1 is gone"},
		"another type": {func(f *descriptorpb.FileDescriptorProto) { f.MessageType[0].Field[0].Type = num.Enum() }, "the type of field 1 was string and is int64"},
		"a list now": {func(f *descriptorpb.FileDescriptorProto) {
			f.MessageType[0].Field[0].Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
		}, "the cardinality of field 1 was optional and is repeated"},
		"into a oneof": {func(f *descriptorpb.FileDescriptorProto) { f.MessageType[0].Field[1].OneofIndex = proto.Int32(0) }, "the oneof of field 2 was none and is choice"},
		"no longer kept": {func(f *descriptorpb.FileDescriptorProto) {
			f.MessageType[0].ReservedRange, f.MessageType[0].ReservedName = nil, nil
		}, "field number 5 is no longer reserved\np.A: field name old is no longer reserved"},
		"value gone":     {func(f *descriptorpb.FileDescriptorProto) { f.EnumType[0].Value = f.EnumType[0].Value[:1] }, "p.E: value ONE = 1 is gone"},
		"service gone":   {func(f *descriptorpb.FileDescriptorProto) { f.Service = nil }, "p.S: it is gone"},
		"method gone":    {func(f *descriptorpb.FileDescriptorProto) { f.Service[0].Method = nil }, "p.S.Do: it is gone"},
		"method streams": {func(f *descriptorpb.FileDescriptorProto) { f.Service[0].Method[0].ServerStreaming = proto.Bool(true) }, "p.S.Do: it was (p.A) returns (p.B) and is (p.A) returns (stream p.B)"},
		"method answers": {func(f *descriptorpb.FileDescriptorProto) { f.Service[0].Method[0].OutputType = proto.String(".p.A") }, "p.S.Do: it was (p.A) returns (p.B) and is (p.A) returns (p.A)"},
		"presence in it": {func(f *descriptorpb.FileDescriptorProto) { optional(f.MessageType[0]) }, "the presence of field 1 was false and is true"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			old := build(t, func(*descriptorpb.FileDescriptorProto) {})
			now := build(t, tt.change)
			files := &protoregistry.Files{}
			if err := files.RegisterFile(now); err != nil {
				t.Fatal(err)
			}
			breaks := breaksOf([]protoreflect.FileDescriptor{old}, func(name protoreflect.FullName) protoreflect.Descriptor {
				found, err := files.FindDescriptorByName(name)
				if err != nil {
					return nil
				}
				return found
			})
			got := strings.Join(breaks, "\n")
			if (tt.want == "") != (got == "") || !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

const (
	str = descriptorpb.FieldDescriptorProto_TYPE_STRING
	num = descriptorpb.FieldDescriptorProto_TYPE_INT64
)

func field(name string, number int32, kind descriptorpb.FieldDescriptorProto_Type) *descriptorpb.FieldDescriptorProto {
	return &descriptorpb.FieldDescriptorProto{
		Name: proto.String(name), JsonName: proto.String(name), Number: proto.Int32(number), Type: kind.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
	}
}

// optional makes the first field optional, which the compiler represents by a synthetic oneof.
func optional(message *descriptorpb.DescriptorProto) {
	message.Field[0].Proto3Optional = proto.Bool(true)
	message.Field[0].OneofIndex = proto.Int32(int32(len(message.OneofDecl)))
	message.OneofDecl = append(message.OneofDecl, &descriptorpb.OneofDescriptorProto{Name: proto.String("_name")})
}

// build compiles a small contract after change was applied to it.
func build(t *testing.T, change func(*descriptorpb.FileDescriptorProto)) protoreflect.FileDescriptor {
	t.Helper()
	inOneof := field("picked", 3, str)
	inOneof.OneofIndex = proto.Int32(0)
	file := &descriptorpb.FileDescriptorProto{
		Name: proto.String("p.proto"), Package: proto.String("p"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{
			{
				Name: proto.String("A"), Field: []*descriptorpb.FieldDescriptorProto{field("name", 1, str), field("count", 2, num), inOneof},
				OneofDecl:     []*descriptorpb.OneofDescriptorProto{{Name: proto.String("choice")}},
				ReservedRange: []*descriptorpb.DescriptorProto_ReservedRange{{Start: proto.Int32(5), End: proto.Int32(7)}}, ReservedName: []string{"old"},
			},
			{Name: proto.String("B")},
		},
		EnumType: []*descriptorpb.EnumDescriptorProto{{Name: proto.String("E"), Value: []*descriptorpb.EnumValueDescriptorProto{
			{Name: proto.String("ZERO"), Number: proto.Int32(0)}, {Name: proto.String("ONE"), Number: proto.Int32(1)},
		}}},
		Service: []*descriptorpb.ServiceDescriptorProto{{Name: proto.String("S"), Method: []*descriptorpb.MethodDescriptorProto{
			{Name: proto.String("Do"), InputType: proto.String(".p.A"), OutputType: proto.String(".p.B")},
		}}},
	}
	change(file)
	built, err := protodesc.NewFile(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	return built
}
