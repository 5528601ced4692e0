package config

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"portolan.dev/services/kit/nearest"
)

var (
	// ErrDone says that Load printed what was asked for: nothing is left to do.
	ErrDone = errors.New("done")
	// ErrUsage is in the error of a command line that cannot be understood.
	ErrUsage = errors.New("wrong usage")
	// ErrInvalid is in the error of values that cannot be used.
	ErrInvalid = errors.New("invalid configuration")
)

// validator is implemented by configurations with rules beyond the types of
// their fields. It should report all problems, joined.
type validator interface{ Validate() error }

// Load fills cfg, a pointer to a struct, from its defaults, the file named by
// -config, the environment and args, each overriding what comes before. out is
// where -h, -print-config and -check-config print; after these Load returns
// ErrDone.
func Load(daemon string, cfg any, args []string, env func(string) (string, bool), out io.Writer) error {
	fields := fieldsOf(daemon, cfg)
	setDefaults(fields)
	cmd, problems := parseArgs(fields, args)
	if cmd.help {
		printHelp(out, daemon, fields)
		return ErrDone
	}
	usage := len(problems) > 0
	path := cmd.file
	if path == "" {
		path, _ = env(envName(daemon, "config"))
	}
	if path != "" {
		problems = append(problems, applyFile(fields, path)...)
	}
	problems = append(problems, applyEnv(fields, env)...)
	problems = append(problems, applyArgs(cmd.settings)...)
	if len(problems) == 0 {
		problems = append(problems, validate(cfg)...)
	}
	if len(problems) > 0 {
		return failure(usage, problems)
	}
	switch {
	case cmd.print:
		printEffective(out, fields)
		return ErrDone
	case cmd.check:
		fmt.Fprintln(out, "configuration is valid")
		return ErrDone
	}
	return nil
}

func applyEnv(fields []*field, env func(string) (string, bool)) []error {
	var problems []error
	for _, f := range fields {
		if text, ok := env(f.env); ok {
			if err := f.set(text, "env "+f.env); err != nil {
				problems = append(problems, err)
			}
		}
	}
	return problems
}

func applyArgs(settings []setting) []error {
	var problems []error
	for _, s := range settings {
		if err := s.field.set(s.text, "flag -"+s.field.name); err != nil {
			problems = append(problems, err)
		}
	}
	return problems
}

func validate(cfg any) []error {
	v, ok := cfg.(validator)
	if !ok {
		return nil
	}
	if err := v.Validate(); err != nil {
		return []error{err}
	}
	return nil
}

// failure keeps the text to the problems themselves: what kind of failure it is
// shows in the exit code.
func failure(usage bool, problems []error) error {
	kind := ErrInvalid
	if usage {
		kind = ErrUsage
	}
	return &loadError{kind: kind, problems: errors.Join(problems...)}
}

type loadError struct{ kind, problems error }

// Error is one line where there is one problem.
func (e *loadError) Error() string {
	text := e.problems.Error()
	if strings.Contains(text, "\n") {
		return e.kind.Error() + ":\n" + text
	}
	return e.kind.Error() + ": " + text
}

func (e *loadError) Unwrap() []error { return []error{e.kind, e.problems} }

// reserved are the flags that every daemon has.
var reserved = map[string]bool{
	"config": true, "check-config": true, "print-config": true, "h": true, "help": true,
}

func knownNames(fields []*field) []string {
	names := make([]string, 0, len(fields)+len(reserved))
	for _, f := range fields {
		names = append(names, f.name)
	}
	for name := range reserved {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// suggest returns "; did you mean x?" when a known name is near enough to be what was meant.
func suggest(name string, known []string, prefix string) string {
	near := nearest.Name(name, known)
	if near == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %s%s?", prefix, near)
}
