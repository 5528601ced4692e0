package main

import (
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// options are the options that all files of a package must agree on, by the rules about them. A file without
// the option has the value "".
var options = map[string]func(*descriptorpb.FileOptions) string{
	"PACKAGE_SAME_CSHARP_NAMESPACE": (*descriptorpb.FileOptions).GetCsharpNamespace,
	"PACKAGE_SAME_GO_PACKAGE":       (*descriptorpb.FileOptions).GetGoPackage,
	"PACKAGE_SAME_JAVA_MULTIPLE_FILES": func(o *descriptorpb.FileOptions) string {
		if o == nil || o.JavaMultipleFiles == nil {
			return ""
		}
		return strconv.FormatBool(o.GetJavaMultipleFiles())
	},
	"PACKAGE_SAME_JAVA_PACKAGE":  (*descriptorpb.FileOptions).GetJavaPackage,
	"PACKAGE_SAME_PHP_NAMESPACE": (*descriptorpb.FileOptions).GetPhpNamespace,
	"PACKAGE_SAME_RUBY_PACKAGE":  (*descriptorpb.FileOptions).GetRubyPackage,
	"PACKAGE_SAME_SWIFT_PREFIX":  (*descriptorpb.FileOptions).GetSwiftPrefix,
}

// lintPackages checks that the files of a package agree with each other, and that packages do not import each
// other in a circle.
func lintPackages(files []protoreflect.FileDescriptor, report report) {
	packageOf := func(file protoreflect.FileDescriptor) string { return string(file.Package()) }
	folderOf := func(file protoreflect.FileDescriptor) string { return path.Dir(file.Path()) }
	same(files, "DIRECTORY_SAME_PACKAGE", folderOf, packageOf, report)
	same(files, "PACKAGE_SAME_DIRECTORY", packageOf, folderOf, report)
	for rule, option := range options {
		same(files, rule, packageOf, func(file protoreflect.FileDescriptor) string {
			set, _ := file.Options().(*descriptorpb.FileOptions)
			return option(set)
		}, report)
	}
	lintImportCycles(files, report)
}

// same reports every file of a group in which not all files have the same value.
func same(files []protoreflect.FileDescriptor, rule string, group, value func(protoreflect.FileDescriptor) string, report report) {
	groups := map[string]map[string]bool{}
	for _, file := range files {
		if groups[group(file)] == nil {
			groups[group(file)] = map[string]bool{}
		}
		groups[group(file)][value(file)] = true
	}
	for _, file := range files {
		if values := groups[group(file)]; len(values) > 1 {
			report(rule, file, "files of %q differ: %q", group(file), slices.Sorted(maps.Keys(values)))
		}
	}
}

// lintImportCycles reports each import of a package from which the imports lead back to the importing package.
func lintImportCycles(files []protoreflect.FileDescriptor, report report) {
	imports := map[protoreflect.FullName]map[protoreflect.FullName]bool{}
	for _, file := range files {
		each(file.Imports(), func(imported protoreflect.FileImport) {
			if imports[file.Package()] == nil {
				imports[file.Package()] = map[protoreflect.FullName]bool{}
			}
			if imported.Package() != file.Package() {
				imports[file.Package()][imported.Package()] = true
			}
		})
	}
	for _, file := range files {
		each(file.Imports(), func(imported protoreflect.FileImport) {
			if imported.Package() != file.Package() && leadsTo(imports, imported.Package(), file.Package(), nil) {
				report("PACKAGE_NO_IMPORT_CYCLE", file, "packages %s and %s import each other", file.Package(), imported.Package())
			}
		})
	}
}

// leadsTo reports whether imports lead from one package to another, without the packages on the way so far.
func leadsTo(imports map[protoreflect.FullName]map[protoreflect.FullName]bool, from, to protoreflect.FullName, way []protoreflect.FullName) bool {
	if from == to {
		return true
	}
	if slices.Contains(way, from) {
		return false
	}
	for next := range imports[from] {
		if leadsTo(imports, next, to, append(way, from)) {
			return true
		}
	}
	return false
}

// lintTypesOfMethods checks that each method has a request and a response of its own.
func lintTypesOfMethods(files []protoreflect.FileDescriptor, report report) {
	uses := map[protoreflect.FullName][]protoreflect.MethodDescriptor{}
	for _, file := range files {
		each(file.Services(), func(service protoreflect.ServiceDescriptor) {
			each(service.Methods(), func(method protoreflect.MethodDescriptor) {
				for _, message := range []protoreflect.MessageDescriptor{method.Input(), method.Output()} {
					uses[message.FullName()] = append(uses[message.FullName()], method)
				}
			})
		})
	}
	for name, methods := range uses {
		if len(methods) < 2 {
			continue
		}
		var names []string
		for _, method := range methods {
			names = append(names, string(method.FullName()))
		}
		report("RPC_REQUEST_RESPONSE_UNIQUE", methods[0], "%s is a request or response more than once: %s", name, strings.Join(names, ", "))
	}
}
