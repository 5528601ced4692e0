package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/pluginpb"

	"portolan.dev/tools/gen/compile"
)

// project is a contract and the module of its generated code.
type project struct {
	root   string   // the folder of the .proto files
	out    string   // the root folder of the module
	module string   // the path of the module
	bin    string   // the folder of the plugins
	kinds  string   // the Go file with the table of kinds, or ""
	coded  []string // folders and files with messages that are encoded and decoded without reflection
	fast   []string // the same, and the messages are also copied and compared without reflection
}

// request compiles the contract and returns the request for all plugins. An unused import is an error, and
// so is a file without a syntax.
func (p project) request(ctx context.Context) (*pluginpb.CodeGeneratorRequest, error) {
	contract, err := compile.Below(ctx, p.root)
	if err != nil {
		return nil, err
	}
	if len(contract.Warnings) > 0 {
		return nil, contract.Warnings[0]
	}
	request := &pluginpb.CodeGeneratorRequest{FileToGenerate: contract.Names}
	for _, file := range contract.Files {
		request.ProtoFile = append(request.ProtoFile, protoutil.ProtoFromFileDescriptor(file))
	}
	return request, nil
}

// generate runs all plugins on one request. It returns the contents of the generated files by name,
// relative to the output folder.
func (p project) generate(ctx context.Context) (map[string][]byte, error) {
	request, err := p.request(ctx)
	if err != nil {
		return nil, err
	}
	coded, err := p.listed(p.coded, request.GetFileToGenerate())
	if err != nil {
		return nil, err
	}
	fast, err := p.listed(p.fast, request.GetFileToGenerate())
	if err != nil {
		return nil, err
	}
	plugins := []struct {
		name, options string
		files         []string
	}{
		{"protoc-gen-go", "", request.GetFileToGenerate()},
		{"protoc-gen-go-grpc", "", request.GetFileToGenerate()},
		{"protoc-gen-go-vtproto", ",features=marshal+unmarshal+size", coded},
		{"protoc-gen-go-vtproto", ",features=marshal+unmarshal+size+clone+equal", fast},
	}
	files := map[string][]byte{}
	for _, plugin := range plugins {
		request.FileToGenerate = plugin.files
		request.Parameter = proto.String("module=" + p.module + plugin.options)
		response, err := runPlugin(ctx, filepath.Join(p.bin, plugin.name), request)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", plugin.name, err)
		}
		for _, file := range response.GetFile() {
			if _, twice := files[file.GetName()]; twice {
				return nil, fmt.Errorf("%s: %s was written already by another plugin", plugin.name, file.GetName())
			}
			files[file.GetName()] = []byte(file.GetContent())
		}
	}
	return files, nil
}

// listed returns the files that are entries of the list or lie in a folder that is one. It is an
// error if an entry matches no file.
func (p project) listed(list, files []string) ([]string, error) {
	var found []string
	for _, entry := range list {
		before := len(found)
		for _, file := range files {
			if file == entry || strings.HasPrefix(file, entry+"/") {
				found = append(found, file)
			}
		}
		if len(found) == before {
			return nil, fmt.Errorf("%s: no such file or folder below %s", entry, p.root)
		}
	}
	return found, nil
}

func runPlugin(ctx context.Context, path string, request *pluginpb.CodeGeneratorRequest) (*pluginpb.CodeGeneratorResponse, error) {
	// The encoding is deterministic, because a plugin may copy descriptor bytes into its output.
	input, err := proto.MarshalOptions{Deterministic: true}.Marshal(request)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, path)
	cmd.Stdin = bytes.NewReader(input)
	cmd.Stderr = os.Stderr
	output, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	response := &pluginpb.CodeGeneratorResponse{}
	if err := proto.Unmarshal(output, response); err != nil {
		return nil, err
	}
	if response.Error != nil {
		return nil, errors.New(response.GetError())
	}
	return response, nil
}

// staleFiles lists the generated files without a .proto file.
func staleFiles(root string, want map[string][]byte) ([]string, error) {
	have, err := compile.FilesBelow(root, ".pb.go")
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(have, func(name string) bool { return want[name] != nil }), nil
}

// write writes the generated files that have changed and removes the stale ones. Unchanged files
// are left alone, so that they are not compiled again.
func write(root string, want map[string][]byte, stale []string) error {
	for name, content := range want {
		path := filepath.Join(root, name)
		if have, err := os.ReadFile(path); err == nil && bytes.Equal(have, content) {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
	}
	for _, name := range stale {
		if err := os.Remove(filepath.Join(root, name)); err != nil {
			return err
		}
	}
	return nil
}

// compare lists the changes that write would make, one line per file, in lexical order.
func compare(root string, want map[string][]byte, stale []string) []string {
	var differ []string
	for name, content := range want {
		have, err := os.ReadFile(filepath.Join(root, name))
		switch {
		case errors.Is(err, os.ErrNotExist):
			differ = append(differ, "missing: "+name)
		case err != nil:
			differ = append(differ, fmt.Sprintf("unreadable: %s: %v", name, err))
		case !bytes.Equal(have, content):
			differ = append(differ, "differs: "+name)
		}
	}
	for _, name := range stale {
		differ = append(differ, "no source: "+name)
	}
	slices.Sort(differ)
	return differ
}
