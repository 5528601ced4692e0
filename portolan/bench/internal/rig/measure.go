package rig

import (
	"context"
	"fmt"
	"runtime"
	"strings"

	"portolan.dev/services/kit/yardstick"
)

// Part measures one thing.
type Part func(ctx context.Context) error

// Ratio keeps a line for the end of the output.
func (r *Rig) Ratio(name string, value float64, target yardstick.Target) {
	r.Keep(yardstick.Line(name, value, target))
}

// Keep keeps a line that Ratio has made in another process.
func (r *Rig) Keep(line string) { r.ratios = append(r.ratios, line) }

// measure runs the named parts one after the other. It prints the load of the machine before and after
// them, and at the end the ratios.
func (r *Rig) measure(ctx context.Context, names []string, parts map[string]Part) error {
	fmt.Printf("%d CPUs, %s; load before: %s\n", runtime.NumCPU(), r.Postgres.Version, load())
	for _, name := range names {
		part := parts[name]
		if part == nil {
			return fmt.Errorf("nothing is called %q", name)
		}
		if err := part(ctx); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	fmt.Printf("\nload after: %s\n", load())
	fmt.Println(strings.Join(r.ratios, "\n"))
	return nil
}
