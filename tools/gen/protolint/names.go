package main

import (
	"path"
	"regexp"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

var (
	pascalCase     = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`)
	lowerSnakeCase = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)
	upperSnakeCase = regexp.MustCompile(`^[A-Z][A-Z0-9]*(_[A-Z0-9]+)*$`)
	packageVersion = regexp.MustCompile(`\.v[1-9][0-9]*((p[1-9][0-9]*)?(alpha|beta)[1-9][0-9]*|test[a-z0-9]*)?$`)
)

// cases has the spelling of the names of each kind of descriptor.
var cases = map[string]struct {
	rule     string
	spelling *regexp.Regexp
}{
	"ENUM":       {"ENUM_PASCAL_CASE", pascalCase},
	"ENUM_VALUE": {"ENUM_VALUE_UPPER_SNAKE_CASE", upperSnakeCase},
	"FIELD":      {"FIELD_LOWER_SNAKE_CASE", lowerSnakeCase},
	"MESSAGE":    {"MESSAGE_PASCAL_CASE", pascalCase},
	"ONEOF":      {"ONEOF_LOWER_SNAKE_CASE", lowerSnakeCase},
	"RPC":        {"RPC_PASCAL_CASE", pascalCase},
	"SERVICE":    {"SERVICE_PASCAL_CASE", pascalCase},
}

// lintFile checks a file by itself: its path, package and imports, and the names of everything in it.
func lintFile(file protoreflect.FileDescriptor, report report) {
	if name := strings.TrimSuffix(path.Base(file.Path()), ".proto"); !lowerSnakeCase.MatchString(name) {
		report("FILE_LOWER_SNAKE_CASE", file, "the file's name is not in lower_snake_case")
	}
	if file.Package() == "" {
		report("PACKAGE_DEFINED", file, "the file has no package")
	} else {
		lintPackageName(file, report)
	}
	each(file.Imports(), func(imported protoreflect.FileImport) {
		if imported.IsPublic {
			report("IMPORT_NO_PUBLIC", file, "the import of %s is public", imported.Path())
		}
	})
	walk(file, func(d protoreflect.Descriptor) {
		if want := cases[kindOf(d)]; !want.spelling.MatchString(string(d.Name())) {
			report(want.rule, d, "the name %s does not match %s", d.Name(), want.spelling)
		}
		switch d := d.(type) {
		case protoreflect.EnumDescriptor:
			lintEnum(d, report)
		case protoreflect.FieldDescriptor:
			if d.Cardinality() == protoreflect.Required {
				report("FIELD_NOT_REQUIRED", d, "field %s is required", d.Name())
			}
		case protoreflect.ServiceDescriptor:
			if !strings.HasSuffix(string(d.Name()), "Service") {
				report("SERVICE_SUFFIX", d, "the name %s does not end with Service", d.Name())
			}
		case protoreflect.MethodDescriptor:
			lintMethod(d, report)
		}
	})
}

func lintPackageName(file protoreflect.FileDescriptor, report report) {
	name := string(file.Package())
	for element := range strings.SplitSeq(name, ".") {
		if !lowerSnakeCase.MatchString(element) {
			report("PACKAGE_LOWER_SNAKE_CASE", file, "package %s is not in lower_snake.case", name)
		}
	}
	if !packageVersion.MatchString(name) {
		report("PACKAGE_VERSION_SUFFIX", file, "package %s does not end with a version, such as .v1", name)
	}
	if folder := strings.ReplaceAll(name, ".", "/"); path.Dir(file.Path()) != folder {
		report("PACKAGE_DIRECTORY_MATCH", file, "files of package %s belong in the folder %s", name, folder)
	}
}

func lintEnum(enum protoreflect.EnumDescriptor, report report) {
	if options, ok := enum.Options().(*descriptorpb.EnumOptions); ok && options.GetAllowAlias() {
		report("ENUM_NO_ALLOW_ALIAS", enum, "enum %s allows two names for a number", enum.Name())
	}
	if enum.Values().Get(0).Number() != 0 {
		report("ENUM_FIRST_VALUE_ZERO", enum, "the first value of enum %s is not 0", enum.Name())
	}
	prefix := upperSnake(string(enum.Name())) + "_"
	each(enum.Values(), func(value protoreflect.EnumValueDescriptor) {
		if !strings.HasPrefix(string(value.Name()), prefix) {
			report("ENUM_VALUE_PREFIX", value, "the name %s does not begin with %s", value.Name(), prefix)
		}
		if value.Number() == 0 && !strings.HasSuffix(string(value.Name()), "_UNSPECIFIED") {
			report("ENUM_ZERO_VALUE_SUFFIX", value, "the name %s of the value 0 does not end with _UNSPECIFIED", value.Name())
		}
	})
}

// upperSnake returns a name in PascalCase in UPPER_SNAKE_CASE. An abbreviation is one word: IPFamily becomes
// IP_FAMILY.
func upperSnake(pascal string) string {
	upper := func(i int) bool { return i >= 0 && i < len(pascal) && pascal[i] >= 'A' && pascal[i] <= 'Z' }
	lower := func(i int) bool { return i >= 0 && i < len(pascal) && pascal[i] >= 'a' && pascal[i] <= 'z' }
	var snake strings.Builder
	for i := range len(pascal) {
		if i > 0 && upper(i) && pascal[i-1] != '_' && (!upper(i-1) || lower(i+1)) {
			snake.WriteByte('_')
		}
		snake.WriteByte(pascal[i])
	}
	return strings.ToUpper(snake.String())
}

func lintMethod(method protoreflect.MethodDescriptor, report report) {
	for _, want := range []struct {
		rule, suffix string
		name         protoreflect.Name
	}{
		{"RPC_REQUEST_STANDARD_NAME", "Request", method.Input().Name()},
		{"RPC_RESPONSE_STANDARD_NAME", "Response", method.Output().Name()},
	} {
		short := method.Name() + protoreflect.Name(want.suffix)
		if want.name != short && want.name != method.Parent().Name()+short {
			report(want.rule, method, "%s should be %s or %s%s", want.name, short, method.Parent().Name(), short)
		}
	}
}
