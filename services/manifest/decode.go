package manifest

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
)

// Document is one document of a manifest, or one item of a List in it.
type Document struct {
	// Object is the decoded object. It is nil if the document was skipped.
	Object object.Object
	// Skipped names the object if Portolan does not have its kind.
	Skipped *Unsupported
	// Line is the first line of the document, from 1.
	Line int
	// Warnings describe corrections, and values that were dropped because Portolan does not use
	// them.
	Warnings []string
}

// Unsupported names an object of a kind that Portolan does not have, such as a Deployment.
type Unsupported struct{ APIVersion, Kind, Namespace, Name string }

// String returns the name of the object, such as "apps/v1 Deployment web".
func (s Unsupported) String() string { return fmt.Sprintf("%s %s %s", s.APIVersion, s.Kind, s.Name) }

// Decode reads a manifest of YAML or JSON documents, separated by lines of "---". It splits Lists
// into their items. source is the name in messages, such as the name of the file. Decode returns
// the documents without mistakes in their order, and the mistakes of all others as [Problems].
func Decode(r io.Reader, source string) ([]Document, error) {
	stream, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", source, err)
	}
	d := decoder{source: source}
	if problem := checkText(stream); problem != nil {
		d.report(0, *problem)
		return nil, d.problems
	}
	for _, chunk := range split(stream) {
		d.chunk(chunk)
	}
	if len(d.problems) > 0 {
		return d.documents, d.problems
	}
	return d.documents, nil
}

type decoder struct {
	source    string
	documents []Document
	problems  Problems
}

func (d *decoder) report(offset int, problems ...Problem) {
	for _, problem := range problems {
		problem.Source = d.source
		problem.Line += offset
		d.problems = append(d.problems, problem)
	}
}

func (d *decoder) chunk(c chunk) {
	roots, problem := parse(c.text)
	for _, root := range roots {
		d.root(root, c.offset)
	}
	if problem != nil {
		d.report(c.offset, *problem)
	}
}

// parse reads text that begins like JSON as JSON, unless it is valid only as YAML.
func parse(source []byte) ([]*node, *Problem) {
	if !bytes.HasPrefix(bytes.TrimSpace(source), []byte("{")) {
		return readYAML(source)
	}
	roots, problem := readJSON(source)
	if problem == nil {
		return roots, nil
	}
	if asYAML, yamlProblem := readYAML(source); yamlProblem == nil {
		return asYAML, nil
	}
	return roots, problem
}

// root decodes an object, or every item of a List.
func (d *decoder) root(n *node, offset int) {
	if n.kind != mapping {
		d.report(offset, *malformed(n.line, n.column, "a document must be an object with apiVersion and kind, not %s", n.describe()))
		return
	}
	itemKind, isList := strings.CutSuffix(n.textOf("kind"), "List")
	items := n.get("items")
	if !isList || items == nil {
		d.object(n, offset)
		return
	}
	if items.kind != sequence && items.kind != null {
		d.report(offset, Problem{Line: items.line, Column: items.column, Violation: apierr.Violation{
			Field: "items", Reason: apierr.ReasonInvalid, Message: "must be a list, not " + items.describe(),
		}})
		return
	}
	for _, item := range items.items {
		if itemKind != "" && item.kind == mapping && item.get("kind") == nil { // as API servers write items
			item.pairs = append(item.pairs, pair{key: "kind", value: n.get("kind").renamed(itemKind)})
			if version := n.get("apiVersion"); item.get("apiVersion") == nil && version != nil {
				item.pairs = append(item.pairs, pair{key: "apiVersion", value: version})
			}
		}
		d.root(item, offset)
	}
}

func (n *node) renamed(value string) *node {
	renamed := *n
	renamed.value = value
	return &renamed
}

func (d *decoder) object(n *node, offset int) {
	apiVersion, kind := n.textOf("apiVersion"), n.textOf("kind")
	for _, name := range []string{"apiVersion", "kind"} {
		if n.textOf(name) == "" {
			d.report(offset, Problem{Line: n.line, Column: n.column, Violation: apierr.Violation{
				Field: name, Reason: apierr.ReasonRequired, Message: "required: says what the document describes",
			}})
		}
	}
	if apiVersion == "" || kind == "" {
		return
	}
	document := Document{Line: n.line + offset}
	codec, upgrade, ok := codecOf(apiVersion, kind)
	if !ok {
		document.Skipped = &Unsupported{APIVersion: apiVersion, Kind: kind}
		if meta := n.get("metadata"); meta != nil {
			document.Skipped.Namespace, document.Skipped.Name = meta.textOf("namespace"), meta.textOf("name")
		}
		d.documents = append(d.documents, document)
		return
	}
	if upgrade != nil {
		upgrade(n)
	}
	o, warnings, problems := codec.decode(n)
	if len(problems) > 0 {
		d.report(offset, problems...)
		return
	}
	document.Object, document.Warnings = o, warnings
	d.documents = append(d.documents, document)
}
