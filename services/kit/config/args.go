package config

import (
	"fmt"
	"strconv"
	"strings"
)

// command is a parsed command line. The standard flag package stops at the first problem and prints
// it; parseArgs accepts the same syntax and collects all problems.
type command struct {
	file               string
	help, check, print bool
	settings           []setting
}

// setting is a flag with its unparsed value. The flags are read first, because -config names the
// file, and applied last, because they take precedence.
type setting struct {
	field *field
	text  string
}

func parseArgs(fields []*field, args []string) (command, []error) {
	var cmd command
	var problems []error
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		if !strings.HasPrefix(arg, "-") || strings.Trim(arg, "-") == "" {
			problems = append(problems, fmt.Errorf("unexpected argument %q", arg))
			continue
		}
		name, text, given := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-"), "=")
		f := find(fields, name)
		if f == nil && !reserved[name] {
			problems = append(problems, fmt.Errorf("unknown flag -%s%s", name, didYouMean(name, knownNames(fields), "-")))
			continue
		}
		if !given {
			switch {
			case name != "config" && (f == nil || f.isBool()):
				text = "true"
			case len(args) == 0:
				problems = append(problems, fmt.Errorf("flag -%s needs a value", name))
				continue
			default:
				text, args = args[0], args[1:]
			}
		}
		if f != nil {
			cmd.settings = append(cmd.settings, setting{f, text})
		} else if err := cmd.builtin(name, text); err != nil {
			problems = append(problems, err)
		}
	}
	return cmd, problems
}

// builtin sets one of the reserved flags.
func (c *command) builtin(name, text string) error {
	if name == "config" {
		c.file = text
		return nil
	}
	on, err := strconv.ParseBool(text)
	if err != nil {
		return fmt.Errorf("flag -%s: want true or false, got %q", name, text)
	}
	switch name {
	case "check-config":
		c.check = on
	case "print-config":
		c.print = on
	default:
		c.help = on
	}
	return nil
}
