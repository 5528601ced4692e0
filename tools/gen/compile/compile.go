package compile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/reporter"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Contract is a compiled contract.
type Contract struct {
	// Names are the files that were to be compiled, slash-separated and relative to the root.
	Names []string
	// Files are these files and all files that they import, each after its imports.
	Files []protoreflect.FileDescriptor
	// Warnings are imports without a use and files without a syntax.
	Warnings []reporter.ErrorWithPos
}

// Below compiles every .proto file below root.
func Below(ctx context.Context, root string) (*Contract, error) {
	names, err := FilesBelow(root, ".proto")
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no .proto files below %s", root)
	}
	return Files(ctx, root, names...)
}

// Files compiles some of the .proto files below root. All errors in all files are reported together.
func Files(ctx context.Context, root string, names ...string) (*Contract, error) {
	contract := &Contract{Names: names}
	var faults []error
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{root}}),
		SourceInfoMode: protocompile.SourceInfoStandard, // comments become Go doc comments
		Reporter: reporter.NewReporter(
			func(fault reporter.ErrorWithPos) error { faults = append(faults, fault); return nil },
			func(warning reporter.ErrorWithPos) { contract.Warnings = append(contract.Warnings, warning) },
		),
	}
	files, err := compiler.Compile(ctx, names...)
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, file := range files {
		contract.addWithImports(file, seen)
	}
	return contract, nil
}

func (c *Contract) addWithImports(file protoreflect.FileDescriptor, seen map[string]bool) {
	if seen[file.Path()] {
		return
	}
	seen[file.Path()] = true
	imports := file.Imports()
	for i := range imports.Len() {
		c.addWithImports(imports.Get(i).FileDescriptor, seen)
	}
	c.Files = append(c.Files, file)
}

// FilesBelow returns the files with the suffix, slash-separated and relative to root, in lexical
// order.
func FilesBelow(root, suffix string) ([]string, error) {
	var names []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, suffix) {
			return err
		}
		name, err := filepath.Rel(root, path)
		names = append(names, filepath.ToSlash(name))
		return err
	})
	return names, err
}
