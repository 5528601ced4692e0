package config

import (
	"fmt"
	"reflect"
	"strings"
)

// field is one setting: its description and its variable.
type field struct {
	name   string // of the flag and of the key in the file
	env    string
	usage  string
	def    string
	value  reflect.Value
	origin string
}

// fieldsOf returns the settings of the struct that cfg points to. It panics on wrong tags, because
// they are mistakes in the program.
func fieldsOf(daemon string, cfg any) []*field {
	v := reflect.ValueOf(cfg)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		panic(fmt.Sprintf("config: want a pointer to a struct, got %T", cfg))
	}
	fields := collect(v.Elem(), nil)
	seen := map[string]bool{}
	for _, f := range fields {
		if seen[f.name] || reserved[f.name] {
			panic(fmt.Sprintf("config: %T has the flag %q twice", cfg, f.name))
		}
		seen[f.name] = true
		f.env = envName(daemon, f.name)
	}
	return fields
}

func collect(v reflect.Value, override map[string]string) []*field {
	var out []*field
	for i := range v.NumField() {
		sf := v.Type().Field(i)
		if sf.Anonymous && sf.Type.Kind() == reflect.Struct {
			out = append(out, collect(v.Field(i), overrides(sf, override))...)
			continue
		}
		name, ok := sf.Tag.Lookup("flag")
		if !ok {
			continue
		}
		if !settable(sf.Type) {
			panic(fmt.Sprintf("config: field %s has the unsupported type %s", sf.Name, sf.Type))
		}
		def := sf.Tag.Get("default")
		if d, ok := override[name]; ok {
			def = d
		}
		out = append(out, &field{name: name, usage: sf.Tag.Get("usage"), def: def, value: v.Field(i)})
	}
	return out
}

// overrides parses the tag `default:"a=1 b=2"` of an embedded struct. Defaults from an outer struct
// take precedence.
func overrides(sf reflect.StructField, outer map[string]string) map[string]string {
	out := map[string]string{}
	for _, pair := range strings.Fields(sf.Tag.Get("default")) {
		name, def, ok := strings.Cut(pair, "=")
		if !ok {
			panic(fmt.Sprintf("config: default of %s: want name=value, got %q", sf.Name, pair))
		}
		out[name] = def
	}
	for name, def := range outer {
		out[name] = def
	}
	return out
}

// envName returns the name of a setting's environment variable: PORTOLAN_<DAEMON>_<NAME>.
func envName(daemon, name string) string {
	return strings.ToUpper(strings.ReplaceAll("portolan_"+daemon+"_"+name, "-", "_"))
}

// isBool reports whether the flag may be given without a value.
func (f *field) isBool() bool { return f.value.Kind() == reflect.Bool }

// set parses text into the field and records its origin.
func (f *field) set(text, origin string) error {
	parsed := reflect.New(f.value.Type()).Elem()
	if err := parse(parsed, text); err != nil {
		return fmt.Errorf("%s (%s): %w", f.name, origin, err)
	}
	f.value.Set(parsed)
	f.origin = origin
	return nil
}

func find(fields []*field, name string) *field {
	for _, f := range fields {
		if f.name == name {
			return f
		}
	}
	return nil
}

func setDefaults(fields []*field) {
	for _, f := range fields {
		if f.def == "" {
			f.value.SetZero()
			f.origin = "default"
			continue
		}
		if err := f.set(f.def, "default"); err != nil {
			panic("config: " + err.Error())
		}
	}
}

// Defaults sets cfg, a pointer to a struct, to the defaults in its tags. It is for tests and for
// programs that build a configuration without reading one.
func Defaults(cfg any) { setDefaults(fieldsOf("", cfg)) }
