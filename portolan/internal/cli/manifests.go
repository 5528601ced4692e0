package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"portolan.dev/portolan/manifest"
)

// readManifests reads all documents of files, folders and standard input ("-"). A fault anywhere means that nothing is returned.
func readManifests(in io.Reader, sources []string) ([]manifest.Document, error) {
	var documents []manifest.Document
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

func readManifest(in io.Reader, path string) ([]manifest.Document, error) {
	if path == "-" {
		return manifest.Decode(in, "standard input")
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return manifest.Decode(file, path)
}

// manifestPaths returns the file itself, or the manifests of a folder in the order of their names.
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
