package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

type runner struct {
	out     io.Writer
	goFlags []string
	flakes  flakeList
	total   totals
}

// module tests all packages of a module, and runs the failed ones again.
func (r *runner) module(ctx context.Context, m module) {
	packages, err := r.goTest(ctx, m, "./...")
	var again []*pkg
	for _, p := range packages {
		if p.state == failed && !p.unbuildable && ctx.Err() == nil {
			again = append(again, p)
			continue
		}
		r.total.add(p)
	}
	if err != nil && !slices.ContainsFunc(packages, func(p *pkg) bool { return p.state == failed }) {
		r.problem(fmt.Sprintf("%s: go test ./...: %v", m.dir, err))
	}
	for _, p := range again {
		r.again(ctx, m, p)
	}
}

func (r *runner) again(ctx context.Context, m module, first *pkg) {
	fmt.Fprintf(r.out, "AGAIN %s: failed (above); running it once more, alone\n", first.path)
	second, err := r.goTest(ctx, m, "-p", "1", "-count", "1", first.path)
	if len(second) != 1 {
		r.total.add(first)
		r.problem(fmt.Sprintf("%s: second run: %d packages reported, want 1 (%v)", first.path, len(second), err))
		return
	}
	r.total.add(second[0])
	if second[0].state != passed {
		return
	}
	for _, f := range r.flakes.flakesOf(first) {
		r.total.flakes = append(r.total.flakes, f)
		fmt.Fprintln(r.out, f)
	}
}

// problem records a failure that belongs to no package.
func (r *runner) problem(what string) {
	fmt.Fprintln(r.out, "FAIL\t"+what)
	r.total.failures = append(r.total.failures, what)
}

// goTest runs go test -json and returns the packages in the order in which they ended. It prints
// each package when it ends.
func (r *runner) goTest(ctx context.Context, m module, args ...string) ([]*pkg, error) {
	// The given flags come first, because later flags such as -p and -count take precedence.
	cmd := m.command(ctx, slices.Concat([]string{"test", "-json"}, r.goFlags, args)...)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := r.read(stdout)
	return ended, cmd.Wait()
}

func (r *runner) read(stream io.Reader) []*pkg {
	open := map[string]*pkg{}
	var ended []*pkg
	lines := bufio.NewReader(stream)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			if p := r.line(open, line); p != nil {
				p.print(r.out)
				ended = append(ended, p)
			}
		}
		if err != nil {
			break
		}
	}
	// A package that has not ended was killed together with go test.
	for _, p := range open {
		p.state = failed
		p.print(r.out)
		ended = append(ended, p)
	}
	return ended
}

// line takes one line of the stream and returns the package that it ends, if any.
func (r *runner) line(open map[string]*pkg, line []byte) *pkg {
	var e event
	if json.Unmarshal(line, &e) != nil {
		r.out.Write(line) // output of other programs is passed on unchanged
		return nil
	}
	if strings.HasPrefix(e.Action, "build-") {
		io.WriteString(r.out, e.Output)
		return nil
	}
	p := open[e.Package]
	if p == nil {
		p = newPkg(e.Package)
		open[e.Package] = p
	}
	if !p.take(e) {
		return nil
	}
	delete(open, e.Package)
	return p
}
