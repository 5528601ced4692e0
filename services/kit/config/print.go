package config

import (
	"fmt"
	"io"
	"reflect"
	"strings"

	"gopkg.in/yaml.v3"
)

// printHelp prints every setting with its flag, variable and default.
func printHelp(out io.Writer, daemon string, fields []*field) {
	fmt.Fprintf(out, "Usage: %s [flags]\n\n", daemon)
	fmt.Fprintf(out, "A flag wins over its environment variable, that over the file, that over the default.\n\n")
	fmt.Fprintf(out, "  -config FILE\n        YAML file, one key per flag (env %s)\n", envName(daemon, "config"))
	fmt.Fprintf(out, "  -check-config\n        check the configuration and exit\n")
	fmt.Fprintf(out, "  -print-config\n        print the configuration in effect, with the origin of each value, and exit\n")
	for _, f := range fields {
		head := "-" + f.name
		if !f.isBool() {
			head += " " + strings.ToUpper(strings.ReplaceAll(kindName(f.value.Type()), " ", "-"))
		}
		fmt.Fprintf(out, "  %s\n        %s (env %s, default %q)\n", head, f.usage, f.env, f.def)
	}
}

// printEffective prints the values of all settings as a file that -config accepts, except that
// passwords are masked.
func printEffective(out io.Writer, fields []*field) {
	for _, f := range fields {
		text, masked := Redact(format(f.value))
		origin := f.origin
		if masked {
			origin += ", password masked"
		}
		fmt.Fprintf(out, "%s: %s # %s\n", f.name, yamlScalar(f.value.Kind(), text), origin)
	}
}

// yamlScalar returns text as a YAML scalar. It quotes strings that YAML would parse as another
// type.
func yamlScalar(kind reflect.Kind, text string) string {
	if kind == reflect.Bool || (kind >= reflect.Int && kind <= reflect.Float64) {
		return text
	}
	data, err := yaml.Marshal(text)
	if err != nil || strings.Count(string(data), "\n") != 1 {
		return fmt.Sprintf("%q", text)
	}
	return strings.TrimSuffix(string(data), "\n")
}
