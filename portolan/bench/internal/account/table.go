package account

import (
	"fmt"
	"slices"
	"strings"
)

// Column is the account of a process, or of a group of processes.
type Column struct {
	Name string
	// Parts are the µs of an operation by kind of work.
	Parts map[string]float64
}

// NewColumn divides the µs of an operation by shares.
func NewColumn(name string, micros float64, shares Shares) Column {
	c := Column{Name: name, Parts: map[string]float64{}}
	for kind, share := range shares {
		c.Parts[kind] = micros * share
	}
	return c
}

func (c Column) total() float64 {
	sum := 0.0
	for _, part := range c.Parts {
		sum += part
	}
	return sum
}

// Table returns the columns as a table in Markdown, with a row for each kind of work that has a part in
// one of them, in the order of names, and a row with the sums.
func Table(names []string, columns []Column) string {
	var b strings.Builder
	b.WriteString("| µs |")
	for _, c := range columns {
		fmt.Fprintf(&b, " %s |", c.Name)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(columns)) + "\n")
	for _, name := range append(slices.Clone(names), Rest) {
		if slices.ContainsFunc(columns, func(c Column) bool { return c.Parts[name] > 0 }) {
			writeRow(&b, name, columns, func(c Column) float64 { return c.Parts[name] })
		}
	}
	writeRow(&b, "**sum**", columns, Column.total)
	return b.String()
}

// writeRow writes a row. Parts below a tenth of a µs are left out.
func writeRow(b *strings.Builder, name string, columns []Column, value func(Column) float64) {
	fmt.Fprintf(b, "| %s |", name)
	for _, c := range columns {
		if v := value(c); v >= 0.1 {
			fmt.Fprintf(b, " %.1f |", v)
		} else {
			b.WriteString(" |")
		}
	}
	b.WriteString("\n")
}
