package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"go.yaml.in/yaml/v2" // writes lists as kubectl does

	"portolan.dev/services/kube"
	"portolan.dev/services/object"
	"portolan.dev/services/terminal"
)

// Format is the syntax of a manifest.
type Format string

// The formats.
const (
	YAML Format = "yaml"
	JSON Format = "json"
)

// Encoder writes a stream of Kubernetes manifests.
type Encoder struct {
	w       io.Writer
	format  Format
	written bool // a document has been written
}

// NewEncoder returns an encoder that writes to w.
func NewEncoder(w io.Writer, format Format) *Encoder { return &Encoder{w: w, format: format} }

// Encode writes an object as a document of its own.
func (e *Encoder) Encode(o object.Object) error {
	tree, err := treeOf(o)
	if err != nil {
		return err
	}
	return e.write(tree)
}

// EncodeList writes any number of objects as one document, a List.
func (e *Encoder) EncodeList(objects []object.Object) error {
	items := make([]any, len(objects))
	for i, o := range objects {
		tree, err := treeOf(o)
		if err != nil {
			return err
		}
		items[i] = tree
	}
	return e.write(map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
}

func treeOf(o object.Object) (any, error) {
	tree, err := codecs[object.KindOf(o)].encode(o)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", object.KeyOf(o), err)
	}
	return tree, nil
}

// write writes a document. One with invisible characters is always JSON, which is YAML too, because
// [terminal.Writer] can escape it without changing it.
func (e *Encoder) write(tree any) error {
	marshal := yaml.Marshal
	if e.format == JSON {
		marshal = marshalJSON
	}
	text, err := marshal(tree)
	if err == nil && e.format == YAML && !terminal.IsSafe(text) {
		text, err = marshalJSON(tree)
	}
	if err != nil {
		return fmt.Errorf("encode %s: %w", e.format, err)
	}
	if e.written && e.format == YAML {
		text = append([]byte("---\n"), text...)
	}
	e.written = true
	_, err = e.w.Write(text)
	return err
}

func marshalJSON(tree any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "    ")
	err := encoder.Encode(tree)
	return out.Bytes(), err
}

// generic converts a value of a Kubernetes type into maps and slices. It leaves out nulls, empty
// objects, and the port 0 with which the types write an absent port.
func generic(typed any) (any, error) {
	data, err := json.Marshal(typed)
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var tree any
	if err := decoder.Decode(&tree); err != nil {
		return nil, err
	}
	tree, _ = prune(tree)
	return tree, nil
}

func prune(tree any) (pruned any, keep bool) {
	switch tree := tree.(type) {
	case nil:
		return nil, false
	case map[string]any:
		for key, value := range tree {
			if value, keep := prune(value); !keep || (key == "targetPort" && value == int64(0)) {
				delete(tree, key)
			} else {
				tree[key] = value
			}
		}
		return tree, len(tree) > 0
	case []any:
		for i, item := range tree {
			if item, keep := prune(item); keep { // an empty item still counts
				tree[i] = item
			} else {
				tree[i] = map[string]any{}
			}
		}
		return tree, len(tree) > 0
	case json.Number:
		return native(tree), true
	default:
		return tree, true
	}
}

// native keeps the digits of large numbers, which a float64 would lose.
func native(number json.Number) any {
	if signed, err := number.Int64(); err == nil {
		return signed
	}
	if float, err := number.Float64(); err == nil {
		return float
	}
	return number.String()
}

// lostFields returns the paths of the fields that an object of Kubernetes has and another lacks.
func lostFields(from, to any) []string {
	before, err := generic(from)
	if err != nil {
		return nil
	}
	after, err := generic(to)
	if err != nil {
		return nil
	}
	return kube.LostFields(before, after, func(path string, value any) bool {
		return value == "" || value == int64(0) || value == false || kube.IsAnnotationPath(path) || path == "stringData" // which becomes data
	})
}
