package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const suffix = ".gz"

// write writes the documents that have changed, and removes files of documents that no longer exist.
func write(folder string, want map[string][]byte) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	have, err := present(folder)
	if err != nil {
		return err
	}
	for name := range have {
		if want[name] == nil {
			if err := os.Remove(filepath.Join(folder, name+suffix)); err != nil {
				return err
			}
		}
	}
	for name, content := range want {
		if bytes.Equal(have[name], content) {
			continue
		}
		if err := os.WriteFile(filepath.Join(folder, name+suffix), compress(content), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// compress compresses a document. The header has no time, so the same document gives the same file.
func compress(content []byte) []byte {
	var out bytes.Buffer
	w, _ := gzip.NewWriterLevel(&out, gzip.BestCompression)
	_, _ = w.Write(content) // a buffer takes everything
	_ = w.Close()
	return out.Bytes()
}

// compare lists the changes that write would make, one line per document, in lexical order.
func compare(folder string, want map[string][]byte) ([]string, error) {
	have, err := present(folder)
	if err != nil {
		return nil, err
	}
	var differ []string
	for name, content := range want {
		switch {
		case have[name] == nil:
			differ = append(differ, "missing: "+name+suffix)
		case !bytes.Equal(have[name], content):
			differ = append(differ, "differs: "+name+suffix)
		}
	}
	for name := range have {
		if want[name] == nil {
			differ = append(differ, "no source: "+name+suffix)
		}
	}
	slices.Sort(differ)
	return differ, nil
}

// present returns the contents of the documents in a folder. One that cannot be decompressed is empty.
func present(folder string) (map[string][]byte, error) {
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	found := map[string][]byte{}
	for _, entry := range entries {
		name := strings.TrimSuffix(entry.Name(), suffix)
		compressed, err := os.ReadFile(filepath.Join(folder, entry.Name()))
		if err != nil {
			return nil, err
		}
		found[name] = []byte{}
		if r, err := gzip.NewReader(bytes.NewReader(compressed)); err == nil {
			if content, err := io.ReadAll(r); err == nil {
				found[name] = content
			}
		}
	}
	return found, nil
}
