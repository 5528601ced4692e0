package printer

import (
	"bytes"
	"encoding/json"
	"io"

	"github.com/goccy/go-yaml"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"portolan.dev/services/terminal"
)

// Message prints a response of the API as "json" or "yaml", with the field names of the API's JSON
// mapping. A message with invisible characters is always JSON, which is YAML too, because
// [terminal.Writer] can escape it without changing it.
func Message(w io.Writer, m proto.Message, format string) error {
	content, err := protojson.MarshalOptions{EmitDefaultValues: true}.Marshal(m)
	if err != nil {
		return err
	}
	if format == "yaml" && terminal.IsSafe(content) {
		content, err = yaml.JSONToYAML(content)
	} else {
		var indented bytes.Buffer
		err = json.Indent(&indented, content, "", "  ")
		indented.WriteByte('\n')
		content = indented.Bytes()
	}
	if err != nil {
		return err
	}
	_, err = w.Write(content)
	return err
}
