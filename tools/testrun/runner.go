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
	"sync"
)

type runner struct {
	out     io.Writer
	goFlags []string
	flakes  flakeList

	mu    sync.Mutex // guards out, total and failed while suites run side by side
	total totals
	// failed has the packages that failed in their first run, and the suites to which they belong.
	failed []failure
}

type failure struct {
	suite suite
	pkg   *pkg
}

// test runs all packages, and the failed ones once more. The first suite, with most of the packages,
// and all others run side by side: the suites have different build flags, so one go test cannot run them
// all, and many of their tests wait for timers rather than for a processor.
func (r *runner) test(ctx context.Context, o options) {
	r.goFlags = o.goFlags
	all, problems := suites(ctx, o)
	for _, problem := range problems {
		r.problem(problem)
	}
	var lanes sync.WaitGroup
	for _, lane := range [][]suite{all[:min(1, len(all))], all[min(1, len(all)):]} {
		lanes.Go(func() {
			for _, s := range lane {
				r.suite(ctx, s)
			}
		})
	}
	lanes.Wait()
	for _, f := range r.failed {
		if ctx.Err() != nil {
			r.total.add(f.pkg)
			continue
		}
		r.again(ctx, f.suite, f.pkg)
	}
}

// suite tests the packages of a suite, and records those that failed.
func (r *runner) suite(ctx context.Context, s suite) {
	if len(s.packages) == 0 || ctx.Err() != nil {
		return
	}
	packages, err := r.goTest(ctx, s, s.packages...)
	if err != nil && !slices.ContainsFunc(packages, func(p *pkg) bool { return p.state == failed }) {
		r.problem(fmt.Sprintf("%s: go test: %v", s.module.dir, err))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range packages {
		if p.state == failed && !p.unbuildable {
			r.failed = append(r.failed, failure{s, p})
			continue
		}
		r.total.add(p)
	}
}

func (r *runner) again(ctx context.Context, s suite, first *pkg) {
	fmt.Fprintf(r.out, "AGAIN %s: failed (above); running it once more, alone\n", first.path)
	second, err := r.goTest(ctx, s, "-p", "1", "-count", "1", first.path)
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
func (r *runner) problem(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintln(r.out, "FAIL\t"+text)
	r.total.failures = append(r.total.failures, text)
}

// goTest runs go test -json and returns the packages in the order in which they ended. It prints
// each package when it ends.
func (r *runner) goTest(ctx context.Context, s suite, args ...string) ([]*pkg, error) {
	cmd := s.command(ctx, r.goFlags, args...)
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
				r.print(p)
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
		r.print(p)
		ended = append(ended, p)
	}
	return ended
}

func (r *runner) print(p *pkg) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p.print(r.out)
}

// write passes on a line that is not part of a test's output.
func (r *runner) write(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	io.WriteString(r.out, text)
}

// line takes one line of the stream and returns the package that it ends, if any.
func (r *runner) line(open map[string]*pkg, line []byte) *pkg {
	var e event
	if json.Unmarshal(line, &e) != nil {
		r.write(string(line)) // output of other programs is passed on unchanged
		return nil
	}
	if strings.HasPrefix(e.Action, "build-") {
		r.write(e.Output)
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
