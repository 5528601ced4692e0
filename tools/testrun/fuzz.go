package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"time"
)

type fuzzTarget struct{ path, name string }

// fuzz runs the fuzz targets of a module one after the other, because go test fuzzes only one
// target at a time. The input of a failure is stored below testdata/fuzz and is a test case from
// then on.
func (r *runner) fuzz(ctx context.Context, m module, each time.Duration) {
	targets, err := fuzzTargets(ctx, m)
	if err != nil {
		r.problem(fmt.Sprintf("%s: list the fuzz targets: %v", m.dir, err))
	}
	for _, target := range targets {
		if ctx.Err() != nil {
			return
		}
		fmt.Fprintf(r.out, "FUZZ\t%s %s\n", target.path, target.name)
		cmd := m.command(ctx, "test", "-run", "^$", "-fuzz", "^"+target.name+"$", "-fuzztime", each.String(), target.path)
		cmd.Stdout, cmd.Stderr = r.out, os.Stderr
		if err := cmd.Run(); err != nil {
			r.problem(fmt.Sprintf("%s %s: %v", target.path, target.name, err))
			continue
		}
		r.total.passed++
	}
}

func fuzzTargets(ctx context.Context, m module) ([]fuzzTarget, error) {
	list := m.command(ctx, "test", "-list", "^Fuzz", "./...")
	list.Stderr = os.Stderr
	listing, err := list.Output()
	// The output lists the names of a package before its "ok" line.
	var targets []fuzzTarget
	var names []string
	for line := range bytes.Lines(listing) {
		fields := strings.Fields(string(line))
		switch {
		case len(fields) == 1 && strings.HasPrefix(fields[0], "Fuzz"):
			names = append(names, fields[0])
		case len(fields) > 1 && fields[0] == "ok":
			for _, name := range names {
				targets = append(targets, fuzzTarget{fields[1], name})
			}
			names = nil
		}
	}
	return targets, err
}
