package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bufbuild/protocompile/parser"
	"google.golang.org/protobuf/reflect/protoreflect"

	"portolan.dev/tools/gen/compile"
)

// report adds a violation of a rule by a descriptor.
type report func(rule string, at protoreflect.Descriptor, format string, args ...any)

// lint returns one line for each violation in the contract, in lexical order.
func lint(contract *compile.Contract) []string {
	var violations []string
	for _, warning := range contract.Warnings {
		rule := "IMPORT_USED"
		if errors.Is(warning, parser.ErrNoSyntax) {
			rule = "SYNTAX_SPECIFIED"
		}
		violations = append(violations, fmt.Sprintf("%v (%s)", warning, rule))
	}
	report := func(rule string, at protoreflect.Descriptor, format string, args ...any) {
		place := at.ParentFile().SourceLocations().ByDescriptor(at)
		violations = append(violations, fmt.Sprintf("%s:%d:%d: ", at.ParentFile().Path(), place.StartLine+1, place.StartColumn+1)+
			fmt.Sprintf(format, args...)+" ("+rule+")")
	}
	var files []protoreflect.FileDescriptor
	for _, file := range contract.Files {
		if slices.Contains(contract.Names, file.Path()) {
			files = append(files, file)
		}
	}
	for _, file := range files {
		lintFile(file, report)
		lintComments(file, report)
	}
	lintPackages(files, report)
	lintTypesOfMethods(files, report)
	slices.Sort(violations)
	return violations
}

// walk calls visit for each descriptor in a container (a file or a message) and in the messages, enums and
// services in it. It leaves out the descriptors that the compiler has made up: the messages of maps, and the
// oneofs of optional fields.
func walk(container protoreflect.Descriptor, visit func(protoreflect.Descriptor)) {
	type declarations interface {
		Messages() protoreflect.MessageDescriptors
		Enums() protoreflect.EnumDescriptors
		Extensions() protoreflect.ExtensionDescriptors
	}
	in := container.(declarations)
	each(in.Enums(), func(enum protoreflect.EnumDescriptor) {
		visit(enum)
		each(enum.Values(), func(value protoreflect.EnumValueDescriptor) { visit(value) })
	})
	each(in.Extensions(), func(extension protoreflect.ExtensionDescriptor) { visit(extension) })
	each(in.Messages(), func(message protoreflect.MessageDescriptor) {
		if message.IsMapEntry() {
			return
		}
		visit(message)
		each(message.Fields(), func(field protoreflect.FieldDescriptor) { visit(field) })
		each(message.Oneofs(), func(oneof protoreflect.OneofDescriptor) {
			if !oneof.IsSynthetic() {
				visit(oneof)
			}
		})
		walk(message, visit)
	})
	if file, ok := container.(protoreflect.FileDescriptor); ok {
		each(file.Services(), func(service protoreflect.ServiceDescriptor) {
			visit(service)
			each(service.Methods(), func(method protoreflect.MethodDescriptor) { visit(method) })
		})
	}
}

// each calls visit for each descriptor of a list.
func each[D any](list interface {
	Len() int
	Get(int) D
}, visit func(D)) {
	for i := range list.Len() {
		visit(list.Get(i))
	}
}

// lintComments checks that everything but files and packages has a comment.
func lintComments(file protoreflect.FileDescriptor, report report) {
	walk(file, func(d protoreflect.Descriptor) {
		if strings.TrimSpace(file.SourceLocations().ByDescriptor(d).LeadingComments) == "" {
			kind := kindOf(d)
			report("COMMENT_"+kind, d, "%s %s has no comment above it", strings.ToLower(strings.ReplaceAll(kind, "_", " ")), d.Name())
		}
	})
}

// kindOf returns the kind of a descriptor, as in buf's names of rules.
func kindOf(d protoreflect.Descriptor) string {
	switch d.(type) {
	case protoreflect.EnumDescriptor:
		return "ENUM"
	case protoreflect.EnumValueDescriptor:
		return "ENUM_VALUE"
	case protoreflect.FieldDescriptor:
		return "FIELD"
	case protoreflect.OneofDescriptor:
		return "ONEOF"
	case protoreflect.ServiceDescriptor:
		return "SERVICE"
	case protoreflect.MethodDescriptor:
		return "RPC"
	}
	return "MESSAGE"
}
