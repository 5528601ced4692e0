package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const checksums = "SHA256SUMS"

// results returns the names of the files to publish: the packages, the archives and the SBOM of this version.
// The folder may have files of other versions, too.
func (r *release) results() ([]string, error) {
	entries, err := os.ReadDir(r.out)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		published := slices.Contains([]string{".deb", ".gz", ".json"}, filepath.Ext(e.Name()))
		if published && (strings.Contains(e.Name(), "_"+r.version+"_") || strings.Contains(e.Name(), "_"+r.version+".cdx")) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// writeChecksums writes the checksums of the results, in the format of sha256sum.
func (r *release) writeChecksums() error {
	names, err := r.results()
	if err != nil {
		return err
	}
	var out strings.Builder
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(r.out, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&out, "%x  %s\n", sha256.Sum256(data), name)
		fmt.Fprintf(r.log, "%8d KiB  %s\n", len(data)>>10, name)
	}
	return writeFile(filepath.Join(r.out, checksums), []byte(out.String()))
}
