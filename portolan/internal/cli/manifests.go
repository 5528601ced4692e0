package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

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
		paths, err := manifestPaths(source)
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			found, err := readManifest(in, path)
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

func readManifest(in io.Reader, path string) ([]document, error) {
	if path == "-" {
		return decode(in, "standard input")
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return decode(file, path)
}

func decode(r io.Reader, source string) ([]document, error) {
	decoded, err := manifest.Decode(r, source)
	documents := make([]document, 0, len(decoded))
	for _, found := range decoded {
		documents = append(documents, document{Document: found, source: source})
	}
	return documents, err
}

// manifestPaths returns the path of a file, or the manifests of a folder ordered by name.
func manifestPaths(source string) ([]string, error) {
	if source == "-" {
		return []string{source}, nil
	}
	info, err := os.Stat(source)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{source}, nil
	}
	var paths []string
	err = filepath.WalkDir(source, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)) {
			paths = append(paths, path)
		}
		return err
	})
	return paths, err
}
