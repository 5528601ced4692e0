package manifest

import (
	"fmt"
	"strings"

	"portolan.dev/services/kit/apierr"
)

// Problem is one mistake in a manifest.
type Problem struct {
	// Source is the name under which the manifest was read, such as the name of a file.
	Source string
	// Line and Column are the position of the mistake, from 1.
	Line, Column int
	// Violation describes the mistake. Its field is empty if the text itself is malformed.
	apierr.Violation
}

// Error formats the problem as compilers do: "web.yaml:7:5: spec.ports[0].prot: unknown field".
func (p Problem) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", p.Source, p.Line, p.Column, p.Violation)
}

// Problems are all mistakes in a manifest.
type Problems []Problem

// Error lists the problems, one per line.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i := range p {
		lines[i] = p[i].Error()
	}
	return strings.Join(lines, "\n")
}
