package config

// Flag describes one setting, for documentation.
type Flag struct {
	Name    string // without the dash; also the key in the file
	Env     string
	Default string
	Usage   string
}

// Flags returns the settings of a configuration in the order of its fields.
func Flags(daemon string, cfg any) []Flag {
	fields := fieldsOf(daemon, cfg)
	flags := make([]Flag, len(fields))
	for i, f := range fields {
		flags[i] = Flag{Name: f.name, Env: f.env, Default: f.def, Usage: f.usage}
	}
	return flags
}
