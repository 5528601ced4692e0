package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// check makes all files twice: from the sources, and from a copy of the sources in another folder without
// version control. It returns an error that names the files that differ. With fresh, the second build has an
// empty build cache.
func (r *release) check(ctx context.Context, fresh bool) error {
	work, err := os.MkdirTemp("", "release-check-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	first, second := *r, *r
	first.out, second.out = filepath.Join(work, "first"), filepath.Join(work, "elsewhere", "second")
	second.root = filepath.Join(work, "elsewhere", "sources")
	if fresh {
		second.cache = filepath.Join(work, "cache")
	}
	if err := copySources(ctx, r.root, second.root); err != nil {
		return err
	}
	for _, one := range []*release{&first, &second} {
		if err := one.make(ctx, one.makePackages, one.makeArchives, one.makeSBOM); err != nil {
			return err
		}
		one.log = io.Discard // both print the same
	}
	n, err := compare(first.out, second.out)
	if err == nil {
		fmt.Fprintf(r.log, "%d files are the same in both folders\n", n)
	}
	return err
}

// copySources copies the files that git tracks, and new files that git does not ignore.
func copySources(ctx context.Context, from, to string) error {
	list, err := git(ctx, from, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err != nil {
		return err
	}
	for name := range strings.SplitSeq(strings.Trim(list, "\x00"), "\x00") {
		source, target := filepath.Join(from, name), filepath.Join(to, name)
		info, err := os.Lstat(source)
		if errors.Is(err, os.ErrNotExist) {
			continue // deleted, and not committed yet
		}
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			continue // a link in testdata to a file elsewhere in the tree
		}
		data, err := os.ReadFile(source)
		if err := errors.Join(err, writeFile(target, data)); err != nil {
			return err
		}
	}
	return nil
}

// compare compares the published files of two folders, and returns their number.
func compare(first, second string) (int, error) {
	names := map[string]bool{}
	for _, folder := range []string{first, second} {
		entries, err := os.ReadDir(folder)
		if err != nil {
			return 0, err
		}
		for _, e := range entries {
			if e.Type().IsRegular() {
				names[e.Name()] = true
			}
		}
	}
	var errs []error
	for name := range names {
		a, err := os.ReadFile(filepath.Join(first, name))
		b, problem := os.ReadFile(filepath.Join(second, name))
		if err := errors.Join(err, problem); err != nil {
			errs = append(errs, err)
		} else if !bytes.Equal(a, b) {
			errs = append(errs, fmt.Errorf("%s differs: %d bytes from the sources, %d from their copy", name, len(a), len(b)))
		}
	}
	return len(names), errors.Join(errs...)
}
