package printer

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"portolan.dev/portolan/internal/balancer"
	"portolan.dev/services/kinds"
	"portolan.dev/services/object"
	"portolan.dev/services/terminal"
)

// Options are the settings of a table.
type Options struct {
	Wide          bool      // all columns
	WithNamespace bool      // a column for the namespace
	NoHeader      bool      // rows only
	Now           time.Time // time from which ages are counted
	// Pools are the pools of load-balancer addresses, for the wide form of services.
	Pools balancer.Pools
}

// column is one column of a kind's table.
type column struct {
	title string
	wide  bool // only in the wide form
	value func(o object.Object, options Options) string
}

// Table prints objects of one kind, one line each.
type Table struct {
	columns []column
	options Options
	out     *tabwriter.Writer
	started bool
}

// NewTable begins a table of objects of the kind.
func NewTable(w io.Writer, kind *kinds.Kind, options Options) *Table {
	return &Table{columns: columnsOf(kind, options), options: options, out: tabwriter.NewWriter(w, 0, 8, 3, ' ', 0)}
}

// Row adds an object. If first is not empty, it is printed before the other columns. A watch puts
// the type of the change there.
func (t *Table) Row(o object.Object, first ...string) {
	if !t.started && !t.options.NoHeader {
		t.line(t.header(len(first)))
	}
	t.started = true
	cells := append([]string{}, first...)
	for _, c := range t.columns {
		cells = append(cells, orDash(c.value(o, t.options)))
	}
	t.line(cells)
}

// Flush writes the aligned rows.
func (t *Table) Flush() error { return t.out.Flush() }

func (t *Table) header(first int) []string {
	var cells []string
	for range first {
		cells = append(cells, "CHANGE")
	}
	for _, c := range t.columns {
		cells = append(cells, c.title)
	}
	return cells
}

func (t *Table) line(cells []string) {
	for i, cell := range cells {
		cells[i] = terminal.Line(cell)
	}
	_, _ = fmt.Fprintln(t.out, strings.Join(cells, "\t")) // a tabwriter keeps its error for Flush
}

func columnsOf(kind *kinds.Kind, options Options) []column {
	var columns []column
	if options.WithNamespace && kind.Namespaced {
		columns = append(columns, column{title: "NAMESPACE", value: func(o object.Object, _ Options) string { return o.GetMetadata().GetNamespace() }})
	}
	for _, c := range layoutOf(kind.Name).columns {
		if !c.wide || options.Wide {
			columns = append(columns, c)
		}
	}
	return columns
}

var (
	name = column{title: "NAME", value: func(o object.Object, _ Options) string { return o.GetMetadata().GetName() }}
	age  = column{title: "AGE", value: func(o object.Object, options Options) string {
		return Age(o.GetMetadata().GetCreationTimestamp().AsTime(), options.Now)
	}}
)

func orDash(s string) string {
	if s == "" {
		return "<none>"
	}
	return s
}

// Age returns the time since then in its two largest units: 45s, 7m30s, 3h20m, 5d4h.
func Age(then, now time.Time) string {
	if then.IsZero() || then.Unix() <= 0 {
		return "<unknown>"
	}
	d := max(now.Sub(then), 0)
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 10*time.Minute:
		return fmt.Sprintf("%dm%ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 3*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 8*time.Hour:
		return fmt.Sprintf("%dh%dm", int(d.Hours()), int(d.Minutes())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	case d < 8*24*time.Hour:
		return fmt.Sprintf("%dd%dh", int(d.Hours())/24, int(d.Hours())%24)
	default:
		return fmt.Sprintf("%dd", int(d.Hours())/24)
	}
}
