package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// makeArchives writes an archive for each architecture, with the files of all its packages. It is for systems
// without dpkg. Unpacking it into / has the same result as installing the packages, except that
// systemd-sysusers must create the users.
func (r *release) makeArchives() error {
	for _, arch := range r.arches {
		packages, err := r.packages(arch)
		if err != nil {
			return err
		}
		var entries []entry
		for _, p := range packages {
			entries = append(entries, p.entries...)
		}
		if err := r.writeArchive(fmt.Sprintf("portolan_%s_linux_%s.tar.gz", r.version, arch), sorted(entries)); err != nil {
			return err
		}
	}
	return nil
}

// writeArchive writes a compressed archive. The gzip header has no name and no time, so that the bytes are
// reproducible.
func (r *release) writeArchive(name string, entries []entry) error {
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	archive := tar.NewWriter(zipped)
	for _, e := range entries {
		if err := r.addEntry(archive, e); err != nil {
			return fmt.Errorf("%s: %s: %w", name, e.path, err)
		}
	}
	if err := errors.Join(archive.Close(), zipped.Close()); err != nil {
		return err
	}
	return writeFile(filepath.Join(r.out, name), out.Bytes())
}

func (r *release) addEntry(archive *tar.Writer, e entry) error {
	header := &tar.Header{
		Name: strings.TrimPrefix(e.path, "/"), Mode: int64(e.mode.Perm()), ModTime: r.time,
		Uname: "root", Gname: "root", Format: tar.FormatUSTAR, Typeflag: tar.TypeReg,
	}
	if e.source == "" {
		header.Typeflag, header.Name = tar.TypeDir, header.Name+"/"
		return archive.WriteHeader(header)
	}
	file, err := os.Open(e.source)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	header.Size = info.Size()
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.Copy(archive, file)
	return err
}
