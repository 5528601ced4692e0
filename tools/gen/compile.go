package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"github.com/bufbuild/protocompile/reporter"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/pluginpb"
)

// compile compiles every .proto file below root and returns the request for all plugins. The
// request has the files to generate, and every imported file before the files that import it, as
// plugins require.
func compile(ctx context.Context, root string) (*pluginpb.CodeGeneratorRequest, error) {
	names, err := filesBelow(root, ".proto")
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no .proto files below %s", root)
	}

	// All errors in all files are collected and reported together.
	var faults []error
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{root}}),
		SourceInfoMode: protocompile.SourceInfoStandard, // comments become Go doc comments
		Reporter: reporter.NewReporter(
			func(fault reporter.ErrorWithPos) error { faults = append(faults, fault); return nil },
			func(warning reporter.ErrorWithPos) { faults = append(faults, warning) },
		),
	}
	files, err := compiler.Compile(ctx, names...)
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	if err != nil {
		return nil, err
	}

	request := &pluginpb.CodeGeneratorRequest{FileToGenerate: names}
	seen := map[string]bool{}
	for _, file := range files {
		addWithImports(request, file, seen)
	}
	return request, nil
}

func addWithImports(request *pluginpb.CodeGeneratorRequest, file protoreflect.FileDescriptor, seen map[string]bool) {
	if seen[file.Path()] {
		return
	}
	seen[file.Path()] = true
	imports := file.Imports()
	for i := range imports.Len() {
		addWithImports(request, imports.Get(i).FileDescriptor, seen)
	}
	request.ProtoFile = append(request.ProtoFile, protoutil.ProtoFromFileDescriptor(file))
}

// filesBelow returns the files with the suffix, slash-separated and relative to root, in lexical
// order.
func filesBelow(root, suffix string) ([]string, error) {
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
