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
	// ErrDone is returned if Load has printed the requested text, so that the program can exit.
	ErrDone = errors.New("done")
	// ErrUsage marks the error of an invalid command line.
	ErrUsage = errors.New("wrong usage")
	// ErrInvalid marks the error of invalid values.
	ErrInvalid = errors.New("invalid configuration")
)

// validator is implemented by configurations with rules beyond the types of their fields. Validate
// should report all problems, joined.
type validator interface{ Validate() error }

// Load fills cfg, a pointer to a struct, from its defaults, the file named by -config, the
// environment and args. Each of these sources overrides the sources before it. With -h, -print-config
// or -check-config, Load prints to out and returns ErrDone.
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
		err := checkArgument(s.field, s.text)
		if err == nil {
			err = s.field.set(s.text, "flag -"+s.field.name)
		}
		if err != nil {
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

// failure returns the error for problems. Its text starts with the kind of failure, which also
// determines the exit code.
func failure(usage bool, problems []error) error {
	kind := ErrInvalid
	if usage {
		kind = ErrUsage
	}
	return &loadError{kind: kind, problems: errors.Join(problems...)}
}

type loadError struct{ kind, problems error }

// Error is a single line if there is only one problem.
func (e *loadError) Error() string {
	text := e.problems.Error()
	if strings.Contains(text, "\n") {
		return e.kind.Error() + ":\n" + text
	}
	return e.kind.Error() + ": " + text
}

func (e *loadError) Unwrap() []error { return []error{e.kind, e.problems} }

// reserved lists the flags that every daemon has.
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

// didYouMean returns "; did you mean x?" if a known name is similar to name.
func didYouMean(name string, known []string, prefix string) string {
	near := nearest.Name(name, known)
	if near == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %s%s?", prefix, near)
}
