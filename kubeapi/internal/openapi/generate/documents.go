package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	openapiv2 "github.com/google/gnostic-models/openapiv2"
	openapiv3 "github.com/google/gnostic-models/openapiv3"
	"google.golang.org/protobuf/proto"
)

// documents returns the documents by the names of their files, without .gz.
func documents(s source) (map[string][]byte, error) {
	all := served()
	files := map[string][]byte{}
	add := func(name string, d document, parse func([]byte) (proto.Message, error)) error {
		text, err := d.encode()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		message, err := parse(text)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		files[name+".json"] = text
		files[name+".pb"], err = proto.MarshalOptions{Deterministic: true}.Marshal(message)
		return err
	}
	whole, err := read(filepath.Join(s.folder, "swagger.json"))
	if err != nil {
		return nil, err
	}
	whole.inlineParameters()
	if err := whole.prune(s.version, all, "/definitions/"); err != nil {
		return nil, err
	}
	if err := add("v2", whole, func(text []byte) (proto.Message, error) { return openapiv2.ParseDocument(text) }); err != nil {
		return nil, err
	}
	for path := range all.versions() {
		name := strings.ReplaceAll(path, "/", "__")
		one, err := read(filepath.Join(s.folder, "v3", name+"_openapi.json"))
		if err != nil {
			return nil, err
		}
		if err := one.prune(s.version, all, "/components/schemas/"); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if err := add("v3__"+name, one, func(text []byte) (proto.Message, error) { return openapiv3.ParseDocument(text) }); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// versions returns the paths of the documents of OpenAPI v3, such as apis/apps/v1.
func (m methods) versions() map[string]bool {
	found := map[string]bool{}
	for path := range m {
		if document, ok := strings.CutSuffix(path, "/"); ok {
			found[document[1:]] = true
		}
	}
	return found
}

// document is a document in JSON.
type document map[string]any

func read(file string) (document, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var d document
	return d, decoder.Decode(&d)
}

func (d document) encode() ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(d)
	return bytes.TrimSpace(text.Bytes()), err
}
