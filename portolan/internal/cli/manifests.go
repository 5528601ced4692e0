package cli

import (
	"errors"
	"fmt"
	"io"
	"os"

	"portolan.dev/services/manifest"
)

// document is a document of a manifest, with its source.
type document struct {
	manifest.Document

	source string
}

func (d document) where() string { return fmt.Sprintf("%s:%d", d.source, d.Line) }

// readManifests reads all documents of files, folders and standard input ("-"). If any document has
// a mistake, it returns none.
func readManifests(in io.Reader, sources []string) ([]document, error) {
	var documents []document
	var faults []error
	for _, source := range sources {
		files, err := manifestFiles(source)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			found, err := readManifest(in, file)
			documents = append(documents, found...)
			faults = append(faults, err)
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	if len(documents) == 0 {
		return nil, fmt.Errorf("no documents in %v", sources)
	}
	return documents, nil
}

func readManifest(in io.Reader, from manifest.File) ([]document, error) {
	if from.Path == "-" {
		return decode(in, "standard input")
	}
	file, err := os.Open(from.Path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return decode(file, from.Name)
}

func decode(r io.Reader, source string) ([]document, error) {
	decoded, err := manifest.Decode(r, source)
	documents := make([]document, 0, len(decoded))
	for _, found := range decoded {
		documents = append(documents, document{Document: found, source: source})
	}
	return documents, err
}

// manifestFiles returns a file, the manifests of a folder, or standard input.
func manifestFiles(source string) ([]manifest.File, error) {
	if source == "-" {
		return []manifest.File{{Name: source, Path: source}}, nil
	}
	return manifest.Files(source)
}
