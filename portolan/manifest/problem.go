package manifest

import (
	"fmt"
	"strings"

	"portolan.dev/services/kit/apierr"
)

// Problem is one thing wrong with a manifest.
type Problem struct {
	// Source is the name that the manifest was read under, such as that of a file.
	Source string
	// Line and Column say where, from 1.
	Line, Column int
	// Violation says what; its field is empty where the text itself is malformed.
	apierr.Violation
}

// Error renders the problem as compilers do: "web.yaml:7:5: spec.ports[0].prot: unknown field".
func (p Problem) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", p.Source, p.Line, p.Column, p.Violation)
}

// Problems are all the things wrong with a manifest.
type Problems []Problem

// Error lists the problems, one on each line.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i := range p {
		lines[i] = p[i].Error()
	}
	return strings.Join(lines, "\n")
}
