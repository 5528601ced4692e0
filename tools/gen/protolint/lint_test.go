package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"portolan.dev/tools/gen/compile"
)

// faultless is a contract that keeps every rule.
const faultless = `syntax = "proto3";
package toy.v1;
import "google/protobuf/timestamp.proto";
option go_package = "example.org/toy/v1;toyv1";
// Comment.
enum IPFamily {
  // Comment.
  IP_FAMILY_UNSPECIFIED = 0;
  // Comment.
  IP_FAMILY_IPV4 = 1;
}
// Comment.
message Thing {
  // Comment.
  string some_name = 1;
  // Comment.
  google.protobuf.Timestamp at = 2;
  // Comment.
  optional int32 n = 3;
  // Comment.
  map<string, Thing> more = 4;
  // Comment.
  oneof some_choice {
    // Comment.
    IPFamily family = 5;
    // Comment.
    string other = 6;
  }
}
// Comment.
service ThingService {
  // Comment.
  rpc GetThing(GetThingRequest) returns (stream GetThingResponse);
  // Comment.
  rpc PutThing(ThingServicePutThingRequest) returns (ThingServicePutThingResponse);
}
// Comment.
message GetThingRequest {}
// Comment.
message GetThingResponse {}
// Comment.
message ThingServicePutThingRequest {}
// Comment.
message ThingServicePutThingResponse {}
`

// toyFile is the path of the faultless file.
const toyFile = "toy/v1/toy.proto"

// small is a second file, with a package and with a go_package option.
const small = "syntax = \"proto3\";\npackage PACKAGE;\noption go_package = \"example.org/toy/v1;toyv1\";\n"

// broken is a contract that breaks rules. It is made of the faultless one.
type broken struct {
	rules   string            // all rules that it breaks, in lexical order
	replace []string          // pairs of a text in the faultless file and its replacement
	path    string            // the path of the file, if it is not toyFile
	others  map[string]string // further files
}

// breaks has a contract for each rule that the contract breaks.
var breaks = []broken{
	{rules: "COMMENT_ENUM", replace: []string{"// Comment.\nenum", "enum"}},
	{rules: "COMMENT_ENUM_VALUE", replace: []string{"// Comment.\n  IP_FAMILY_IPV4", "IP_FAMILY_IPV4"}},
	{rules: "COMMENT_FIELD", replace: []string{"// Comment.\n  string some", "string some"}},
	{rules: "COMMENT_FIELD", replace: []string{"// Comment.\n    string other", "string other"}},
	{rules: "COMMENT_FIELD", replace: []string{"// Comment.\n  string some", "//\n  string some"}},
	{rules: "COMMENT_MESSAGE", replace: []string{"// Comment.\nmessage GetThingRequest", "message GetThingRequest"}},
	{rules: "COMMENT_MESSAGE", replace: []string{"message Thing {", "message Thing {\nmessage Inner {}\n"}},
	{rules: "COMMENT_ONEOF", replace: []string{"// Comment.\n  oneof", "oneof"}},
	{rules: "COMMENT_RPC", replace: []string{"// Comment.\n  rpc Get", "rpc Get"}},
	{rules: "COMMENT_SERVICE", replace: []string{"// Comment.\nservice", "service"}},
	{rules: "DIRECTORY_SAME_PACKAGE PACKAGE_DIRECTORY_MATCH", others: map[string]string{"toy/v1/other.proto": strings.Replace(small, "PACKAGE", "toy.v2", 1)}},
	{rules: "ENUM_FIRST_VALUE_ZERO", replace: append(proto2("syntax = \"proto2\";"), "IP_FAMILY_UNSPECIFIED = 0", "IP_FAMILY_UNSPECIFIED = 2")},
	{rules: "ENUM_NO_ALLOW_ALIAS", replace: []string{"enum IPFamily {", "enum IPFamily {\noption allow_alias = true;", "IP_FAMILY_IPV4 = 1;", "IP_FAMILY_IPV4 = 1;\n// Comment.\nIP_FAMILY_FOUR = 1;"}},
	{rules: "ENUM_PASCAL_CASE", replace: []string{"enum IPFamily", "enum IP_Family", "IPFamily family", "IP_Family family"}},
	{rules: "ENUM_VALUE_PREFIX", replace: []string{"IP_FAMILY_IPV4", "IPV4"}},
	{rules: "ENUM_VALUE_UPPER_SNAKE_CASE", replace: []string{"IP_FAMILY_IPV4", "IP_FAMILY_IPv4"}},
	{rules: "ENUM_ZERO_VALUE_SUFFIX", replace: []string{"IP_FAMILY_UNSPECIFIED", "IP_FAMILY_NONE"}},
	{rules: "FIELD_LOWER_SNAKE_CASE", replace: []string{"some_name", "someName"}},
	{rules: "FIELD_NOT_REQUIRED", replace: append(proto2("syntax = \"proto2\";"), "optional string some", "required string some")},
	{rules: "FILE_LOWER_SNAKE_CASE", path: "toy/v1/theToy.proto"},
	{rules: "IMPORT_NO_PUBLIC", replace: []string{"import \"", "import public \""}},
	{rules: "IMPORT_USED", replace: []string{"google.protobuf.Timestamp at", "string at"}},
	{rules: "MESSAGE_PASCAL_CASE", replace: []string{"message Thing {", "message thing {", "string, Thing", "string, thing"}},
	{rules: "ONEOF_LOWER_SNAKE_CASE", replace: []string{"some_choice", "someChoice"}},
	{rules: "PACKAGE_DEFINED", replace: []string{"package toy.v1;", ""}},
	{rules: "PACKAGE_DIRECTORY_MATCH", path: "toy/v2/toy.proto"},
	{rules: "PACKAGE_LOWER_SNAKE_CASE", path: "Toy/v1/toy.proto", replace: []string{"package toy.v1", "package Toy.v1"}},
	{
		rules:   "PACKAGE_NO_IMPORT_CYCLE",
		replace: []string{"import", "import \"other/v1/b.proto\";\nimport", "string other = 6", "other.v1.B other = 6"},
		others: map[string]string{
			"other/v1/a.proto": strings.Replace(small, "PACKAGE", "other.v1", 1) + "import \"toy/v1/toy.proto\";\n// Comment.\nmessage A {\n// Comment.\ntoy.v1.Thing thing = 1; }",
			"other/v1/b.proto": strings.Replace(small, "PACKAGE", "other.v1", 1) + "// Comment.\nmessage B {}",
		},
	},
	{rules: "PACKAGE_DIRECTORY_MATCH PACKAGE_SAME_DIRECTORY", others: map[string]string{"toy/v2/other.proto": strings.Replace(small, "PACKAGE", "toy.v1", 1)}},
	sameOption("PACKAGE_SAME_CSHARP_NAMESPACE", "option csharp_namespace = \"Toy\";"),
	{rules: "PACKAGE_SAME_GO_PACKAGE", others: map[string]string{"toy/v1/other.proto": "syntax = \"proto3\";\npackage toy.v1;\n"}},
	sameOption("PACKAGE_SAME_JAVA_MULTIPLE_FILES", "option java_multiple_files = false;"),
	sameOption("PACKAGE_SAME_JAVA_PACKAGE", "option java_package = \"toy\";"),
	sameOption("PACKAGE_SAME_PHP_NAMESPACE", "option php_namespace = \"Toy\";"),
	sameOption("PACKAGE_SAME_RUBY_PACKAGE", "option ruby_package = \"Toy\";"),
	sameOption("PACKAGE_SAME_SWIFT_PREFIX", "option swift_prefix = \"Toy\";"),
	{rules: "PACKAGE_VERSION_SUFFIX", path: "toy/toy.proto", replace: []string{"package toy.v1", "package toy"}},
	{rules: "RPC_PASCAL_CASE RPC_REQUEST_STANDARD_NAME RPC_RESPONSE_STANDARD_NAME", replace: []string{"rpc GetThing", "rpc getThing"}},
	{rules: "RPC_REQUEST_RESPONSE_UNIQUE RPC_REQUEST_STANDARD_NAME", replace: []string{"PutThing(ThingServicePutThingRequest)", "PutThing(GetThingRequest)"}},
	{rules: "RPC_REQUEST_RESPONSE_UNIQUE RPC_RESPONSE_STANDARD_NAME", replace: []string{"returns (ThingServicePutThingResponse)", "returns (ThingServicePutThingRequest)"}},
	{rules: "RPC_REQUEST_STANDARD_NAME", replace: []string{"(GetThingRequest)", "(GetRequest)", "message GetThingRequest", "message GetRequest"}},
	{rules: "RPC_RESPONSE_STANDARD_NAME", replace: []string{"stream GetThingResponse", "stream GetResponse", "message GetThingResponse", "message GetResponse"}},
	{rules: "SERVICE_PASCAL_CASE", replace: []string{"service ThingService", "service thing_Service", "ThingServicePut", "Put", "ThingServicePut", "Put", "ThingServicePut", "Put", "ThingServicePut", "Put"}},
	{rules: "SERVICE_SUFFIX", replace: []string{"service ThingService", "service Things", "ThingServicePut", "Put", "ThingServicePut", "Put", "ThingServicePut", "Put", "ThingServicePut", "Put"}},
	{rules: "SYNTAX_SPECIFIED", replace: proto2("")},
}

// sameOption returns a contract of two files of which only the second has the option.
func sameOption(rule, option string) broken {
	return broken{rules: rule, others: map[string]string{"toy/v1/other.proto": strings.Replace(small, "PACKAGE", "toy.v1", 1) + option}}
}

// proto2 returns the replacements that make the faultless file one of proto2, with this statement of its syntax.
func proto2(syntax string) []string {
	return []string{
		"syntax = \"proto3\";", syntax, "string some_name", "optional string some_name",
		"google.protobuf.Timestamp at", "optional google.protobuf.Timestamp at",
	}
}

func TestEachRule(t *testing.T) {
	for _, tt := range breaks {
		t.Run(tt.rules, func(t *testing.T) {
			content := faultless
			for i := 0; i < len(tt.replace); i += 2 {
				if !strings.Contains(content, tt.replace[i]) {
					t.Fatalf("no %q to replace", tt.replace[i])
				}
				content = strings.Replace(content, tt.replace[i], tt.replace[i+1], 1)
			}
			files := map[string]string{toyFile: content}
			if tt.path != "" {
				files = map[string]string{tt.path: content}
			}
			for path, other := range tt.others {
				files[path] = other
			}
			if got := rulesOf(t, files); got != tt.rules {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestFaultless(t *testing.T) {
	if got := rulesOf(t, map[string]string{toyFile: faultless}); got != "" {
		t.Errorf("got %q", got)
	}
}

// rulesOf returns the rules that a contract breaks, in lexical order, separated by spaces.
func rulesOf(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	contract, err := compile.Below(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	var rules []string
	for _, violation := range lint(contract) {
		t.Log(violation)
		match := regexp.MustCompile(`^.*?:\d+:\d+: .* \(([A-Z_]+)\)$`).FindStringSubmatch(violation)
		if match == nil {
			t.Fatalf("%q has no place or no rule", violation)
		}
		rules = append(rules, match[1])
	}
	slices.Sort(rules)
	return strings.Join(slices.Compact(rules), " ")
}
