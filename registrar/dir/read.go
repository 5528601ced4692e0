package dir

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"portolan.dev/services/applyset"
	"portolan.dev/services/manifest"
	"portolan.dev/services/object"
)

// content is the contents of the folder's files.
type content struct {
	revision string
	files    int
	objects  []object.Object
	fileOf   map[object.Object]string // the file of each object
	problems []Problem
	warnings []Problem
}

// read reads all files of the folder. The caller uses the objects only if there are no problems.
func (r *Runner) read() content {
	c := content{fileOf: map[object.Object]string{}}
	files, err := manifest.Files(r.options.Path)
	if err != nil {
		c.problems = append(c.problems, Problem{Message: err.Error()})
		return c
	}
	c.files = len(files)
	revision := sha256.New()
	for _, file := range files {
		name := r.below(file.Name)
		text, err := readInside(file)
		if err != nil {
			c.problems = append(c.problems, Problem{File: name, Message: err.Error()})
			continue
		}
		_, _ = fmt.Fprintf(revision, "%s\x00%d\x00%s", name, len(text), text) // a hash never fails
		c.add(name, text, r.options.Namespace)
	}
	c.revision = hex.EncodeToString(revision.Sum(nil))
	if len(c.objects) == 0 && len(c.problems) == 0 {
		c.problems = append(c.problems, Problem{Message: "no manifests: an empty folder is not applied, because everything would be pruned; remove its objects with portolan delete"})
	}
	return c
}

// maxFileBytes is the size of the largest file that is read. Manifests are far smaller.
const maxFileBytes = 64 << 20

// readInside reads a file of the folder. It refuses links that lead out of the folder. Otherwise a user
// with write access to the folder could make the daemon read other files of its machine, and devices.
func readInside(file manifest.File) ([]byte, error) {
	if file.Folder == "" {
		return nil, errors.New("this is a file; give the folder that it is in")
	}
	root, err := os.OpenRoot(file.Folder)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	name, err := filepath.Rel(file.Folder, file.Path)
	if err != nil {
		return nil, err
	}
	info, err := root.Stat(name)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("this is no regular file; remove it or rename it")
	case info.Size() > maxFileBytes:
		return nil, fmt.Errorf("the file has %d bytes, of which %d are allowed; split it", info.Size(), maxFileBytes)
	}
	return root.ReadFile(name)
}

// below returns the path of a file relative to the folder.
func (r *Runner) below(name string) string {
	relative, err := filepath.Rel(r.options.Path, name)
	if err != nil {
		return name // impossible: the name begins with the path
	}
	return filepath.ToSlash(relative)
}

// add adds the documents of a file.
func (c *content) add(file string, text []byte, namespace string) {
	documents, err := manifest.Decode(bytes.NewReader(text), file)
	c.problems = append(c.problems, problemsOf(file, err)...)
	for _, document := range documents {
		for _, warning := range document.Warnings {
			c.warnings = append(c.warnings, Problem{File: file, Line: document.Line, Message: warning})
		}
		if document.Object == nil {
			c.warnings = append(c.warnings, Problem{File: file, Line: document.Line, Message: fmt.Sprintf("%s is not a kind of Portolan's; skipped", document.Skipped)})
			continue
		}
		applyset.SetNamespace(document.Object, namespace)
		c.objects = append(c.objects, document.Object)
		c.fileOf[document.Object] = file
	}
}

// problemsOf returns an error of the decoder as problems.
func problemsOf(file string, err error) []Problem {
	if err == nil {
		return nil
	}
	found, ok := errors.AsType[manifest.Problems](err)
	if !ok {
		return []Problem{{File: file, Message: err.Error()}}
	}
	var all []Problem
	for _, p := range found {
		all = append(all, Problem{File: file, Line: p.Line, Column: p.Column, Field: p.Field, Message: p.Message})
	}
	return all
}

// set returns the set that selects the objects to prune, or nil if nothing is pruned.
func (r *Runner) set(c *content) *applyset.Set {
	if r.options.Selector == "" {
		return nil
	}
	set, err := applyset.NewSet(c.objects, applyset.SetOptions{
		Selector: r.options.Selector, Namespace: r.options.Namespace, Everywhere: r.options.Everywhere,
	})
	c.problems = append(c.problems, c.faults(err)...)
	return set
}

// faults returns an error of NewSet as problems.
func (c *content) faults(err error) []Problem {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []Problem{{Message: err.Error()}}
	}
	var all []Problem
	for _, one := range joined.Unwrap() {
		if fault, ok := errors.AsType[*applyset.Fault](one); ok {
			all = append(all, Problem{File: c.fileOf[fault.Object], Object: object.KeyOf(fault.Object).String(), Message: fault.Message})
		}
	}
	return all
}
