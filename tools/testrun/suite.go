package main

import (
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
)

// suite is the set of packages that one go test runs.
type suite struct {
	module   module // the folder in which go test runs
	race     bool
	packages []string // arguments of go test, in the order in which they are to start
}

// suites returns the suites of a run. All modules of the workspace are in the first one, so that go
// test fills its slots from all of them; its packages without the race detector are in the second one.
// Each module outside the workspace has a suite of its own.
func suites(ctx context.Context, o options) (all []suite, problems []string) {
	var together []string
	var root module
	for _, m := range o.modules {
		packages, err := m.packages(ctx)
		switch {
		case err != nil:
			problems = append(problems, fmt.Sprintf("%s: list the packages: %v", m.dir, err))
		case m.alone:
			race := o.race && !slices.ContainsFunc(packages, func(path string) bool { return matchesAny(path, o.plain) })
			all = append(all, suite{module: m, race: race, packages: startOrder(packages, o.first)})
		default:
			root = m
			together = append(together, packages...)
		}
	}
	if len(together) == 0 {
		return all, problems
	}
	together = startOrder(together, o.first)
	workspace := []suite{{module: root, packages: together}}
	if o.race {
		var raced, plain []string
		for _, path := range together {
			if matchesAny(path, o.plain) {
				plain = append(plain, path)
			} else {
				raced = append(raced, path)
			}
		}
		workspace = []suite{{module: root, race: true, packages: raced}, {module: root, packages: plain}}
	}
	return append(workspace, all...), problems
}

// packages returns the import paths of a module's packages.
func (m module) packages(ctx context.Context) ([]string, error) {
	list, err := m.command(ctx, "list", "./...").Output()
	if err != nil {
		return nil, fmt.Errorf("%w%s", err, stderrOf(err))
	}
	return strings.Fields(string(list)), nil
}

// startOrder returns the packages in the order in which they start: first the packages that first names, in its
// order, then the others in their own order.
func startOrder(packages, first []string) []string {
	rank := func(path string) int {
		at := slices.IndexFunc(first, func(end string) bool { return matches(path, end) })
		if at < 0 {
			return len(first)
		}
		return at
	}
	ordered := slices.Clone(packages)
	slices.SortStableFunc(ordered, func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
	return ordered
}

// matchesAny reports whether one of the patterns matches the import path.
func matchesAny(path string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return matches(path, pattern) })
}

// matches reports whether the import path ends with the pattern, or is below a pattern that ends with /...
func matches(path, pattern string) bool {
	root, withBelow := strings.CutSuffix(pattern, "/...")
	return strings.HasSuffix(path, "/"+root) || withBelow && strings.Contains(path+"/", "/"+root+"/")
}

// command returns a go test that reports as JSON. Later flags such as -p and -count take precedence, so
// the given ones come first.
func (s suite) command(ctx context.Context, goFlags []string, args ...string) *exec.Cmd {
	flags := append([]string{"test", "-json"}, goFlags...)
	env := []string{"CGO_ENABLED=0"} // as in the programs that ship
	if s.race {
		flags = append(flags, "-race")
		// The race detector needs cgo. By default it sleeps for a second at the end of each test binary.
		env = []string{"CGO_ENABLED=1", "GORACE=atexit_sleep_ms=50"}
	}
	cmd := s.module.command(ctx, append(flags, args...)...)
	cmd.Env = append(cmd.Env, env...)
	return cmd
}
