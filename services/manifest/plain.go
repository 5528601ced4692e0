package manifest

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"portolan.dev/services/kinds"
	"portolan.dev/services/kube"
	"portolan.dev/services/object"
)

// plainVersion is the apiVersion of the kinds that Kubernetes lacks.
const plainVersion = "portolan.dev/v1"

// plainHeader holds the fields that have Kubernetes' form in documents of all kinds.
type plainHeader struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

// plain returns the codec of a kind that Kubernetes lacks. Its documents have Kubernetes' metadata;
// the other fields have the names and values of the contract's JSON mapping.
func plain(kind *kinds.Kind) codec {
	write := func(o object.Object) *plainHeader {
		return &plainHeader{metav1.TypeMeta{APIVersion: plainVersion, Kind: kind.Name}, kube.WriteMeta(o.GetMetadata())}
	}
	return codec{
		apiVersion: plainVersion, kind: kind.Name,
		decode: func(n *node) (object.Object, []string, Problems) { return decodePlain(n, kind.New(), write) },
		encode: func(o object.Object) (any, error) { return encodePlain(o, write) },
	}
}

func decodePlain(n *node, o object.Object, write func(object.Object) *plainHeader) (object.Object, []string, Problems) {
	var s checker
	header, body := splitPlain(n)
	typed := &plainHeader{}
	s.check(header, reflect.TypeFor[plainHeader](), "")
	s.checkMessage(body, o.ProtoReflect().Descriptor(), "")
	if len(s.problems) > 0 {
		return nil, nil, s.problems
	}
	if err := unmarshalPlain(header, typed, body, o); err != nil {
		return nil, nil, Problems{*malformed(n.line, n.column, "%s", err)}
	}
	meta, violations := kube.ReadMeta(&typed.ObjectMeta, messages)
	if len(violations) > 0 {
		return nil, nil, problemsIn(n, violations)
	}
	o.ProtoReflect().Set(metadataOf(o), protoreflect.ValueOfMessage(meta.ProtoReflect()))
	return o, append(s.warnings, lossWarnings(typed, write(o))...), nil
}

// splitPlain splits a document into the fields of plainHeader and the others.
func splitPlain(n *node) (header, body *node) {
	head, rest := *n, *n
	head.pairs, rest.pairs = nil, nil
	for _, p := range n.pairs {
		if slices.Contains([]string{"apiVersion", "kind", "metadata"}, p.key) {
			head.pairs = append(head.pairs, p)
		} else {
			rest.pairs = append(rest.pairs, p)
		}
	}
	return &head, &rest
}

func unmarshalPlain(header *node, typed *plainHeader, body *node, o object.Object) error {
	data, err := json.Marshal(header)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, typed); err != nil {
		return err
	}
	if data, err = json.Marshal(body); err != nil {
		return err
	}
	return protojson.Unmarshal(data, o)
}

func encodePlain(o object.Object, write func(object.Object) *plainHeader) (any, error) {
	tree, err := generic(write(o))
	if err != nil {
		return nil, err
	}
	body := object.Clone(o)
	body.ProtoReflect().Clear(metadataOf(o))
	data, err := protojson.Marshal(body)
	if err != nil {
		return nil, err
	}
	fields, err := generic(json.RawMessage(data))
	if err != nil {
		return nil, err
	}
	if fields, ok := fields.(map[string]any); ok {
		maps.Copy(tree.(map[string]any), fields)
	}
	return tree, nil
}

func metadataOf(o object.Object) protoreflect.FieldDescriptor {
	return o.ProtoReflect().Descriptor().Fields().ByName("metadata")
}

// checkMessage checks the names of the fields of a message and of the messages below it. Their
// values are checked when they are decoded.
func (s *checker) checkMessage(n *node, message protoreflect.MessageDescriptor, path string) {
	if n.kind == null || message.ParentFile().Package() == "google.protobuf" || !s.expect(n, path, "an object", mapping) {
		return
	}
	known := jsonNames(message)
	seen := map[string]int{}
	for _, p := range n.pairs {
		where := join(path, p.key)
		descriptor := message.Fields().ByJSONName(p.key)
		if descriptor == nil {
			s.wrongAt(p.line, p.column, where, "unknown field%s", suggest(p.key, known))
			continue
		}
		if first, twice := seen[p.key]; twice {
			s.wrongAt(p.line, p.column, where, "is given twice, first on line %d", first)
			continue
		}
		seen[p.key] = p.line
		switch {
		case descriptor.IsMap():
			s.expect(p.value, where, "an object", mapping, null)
		case descriptor.IsList():
			s.checkItems(p.value, descriptor, where)
		case descriptor.Message() != nil:
			s.checkMessage(p.value, descriptor.Message(), where)
		}
	}
}

func (s *checker) checkItems(n *node, list protoreflect.FieldDescriptor, path string) {
	if !s.expect(n, path, "a list", sequence, null) || list.Message() == nil {
		return
	}
	for i, item := range n.items {
		s.checkMessage(item, list.Message(), indexed(path, i))
	}
}

func jsonNames(message protoreflect.MessageDescriptor) map[string]field {
	names := map[string]field{}
	for i := range message.Fields().Len() {
		name := message.Fields().Get(i).JSONName()
		names[name] = field{name: name}
	}
	return names
}
