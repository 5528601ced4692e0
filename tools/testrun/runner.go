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
	except  []string
	goFlags []string
	flakes  flakeList
	total   totals
}

// module tests all packages of a module, and runs the failed ones again.
func (r *runner) module(ctx context.Context, m module) {
	tested, err := r.tested(ctx, m)
	if err != nil {
		r.problem(fmt.Sprintf("%s: list the packages: %v", m.dir, err))
		return
	}
	if len(tested) == 0 {
		return
	}
	packages, err := r.goTest(ctx, m, tested...)
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

// tested returns the packages of a module that are tested, as arguments of go test.
func (r *runner) tested(ctx context.Context, m module) ([]string, error) {
	if len(r.except) == 0 {
		return []string{"./..."}, nil
	}
	list, err := m.command(ctx, "list", "./...").Output()
	if err != nil {
		return nil, fmt.Errorf("%w%s", err, stderrOf(err))
	}
	return slices.DeleteFunc(strings.Fields(string(list)), r.isExcepted), nil
}

// isExcepted reports whether the path of a package ends in that of an excepted one, or is below it.
func (r *runner) isExcepted(path string) bool {
	return slices.ContainsFunc(r.except, func(except string) bool {
		root, withBelow := strings.CutSuffix(except, "/...")
		return strings.HasSuffix(path, "/"+root) || withBelow && strings.Contains(path+"/", "/"+root+"/")
	})
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
