package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"time"
)

type options struct {
	modules []module
	race    bool     // test with the race detector, except for the packages of plain
	plain   []string // packages that are tested without the race detector: patterns of matches
	first   []string // the ends of the paths of packages that start before all others, in this order
	goFlags []string // passed to go test
	fuzz    time.Duration
	flakes  flakeList // tests that may fail once
	strict  bool      // skips and flakes are failures
	unknown int       // the number of flakes that are no failures although flakes lacks them
}

func main() {
	var o options
	alone := flag.String("alone", "", "comma list of folders with modules outside the workspace, tested as well with GOWORK=off")
	flag.BoolVar(&o.race, "race", false, "test with the race detector")
	plain := flag.String("plain", "", "comma list of packages that are tested without the race detector, such as portolan/e2e, or portolan/e2e/... with those below")
	first := flag.String("first", "", "comma list of packages that start before all others, the slowest first")
	flag.DurationVar(&o.fuzz, "fuzz", 0, "instead of testing, run every fuzz target for this long")
	flakes := flag.String("flakes", "", "file with the tests that may fail once, and the reasons")
	flag.IntVar(&o.unknown, "unknown-flakes", 0, "how many tests may fail once although -flakes does not list them")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: testrun [-race] [-plain PACKAGE,…] [-first PACKAGE,…] [-alone DIR,…] [-flakes FILE] [-unknown-flakes N] [-fuzz DURATION] [-- flags of go test]")
		flag.PrintDefaults()
	}
	flag.Parse()
	o.plain, o.first, o.goFlags = commaList(*plain), commaList(*first), flag.Args()
	o.strict = os.Getenv("PORTOLAN_REQUIRE_REAL") == "1"

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	var err error
	if o.modules, err = workspace(ctx, *alone); err != nil {
		exit(err)
	}
	if o.flakes, err = readFlakes(*flakes); err != nil {
		exit(err)
	}
	ok := run(ctx, os.Stdout, o)
	stop()
	if !ok {
		os.Exit(1)
	}
}

func exit(err error) {
	fmt.Fprintln(os.Stderr, "testrun:", err)
	os.Exit(1)
}

// run tests or fuzzes the modules and reports whether nothing failed.
func run(ctx context.Context, out io.Writer, o options) bool {
	r := &runner{out: out, flakes: o.flakes, total: totals{seen: map[string]bool{}}}
	if o.fuzz > 0 {
		for _, m := range o.modules {
			r.fuzz(ctx, m, o.fuzz)
		}
	} else {
		r.test(ctx, o)
	}
	if ctx.Err() != nil {
		r.problem("interrupted")
	}
	if o.fuzz == 0 && !slices.ContainsFunc(o.goFlags, excludesTests) {
		for _, name := range o.flakes.outdated(r.total.seen) {
			r.problem("the list of flakes names " + name + ", which is no test: remove the entry")
		}
	}
	return r.total.summarize(out, o)
}

// excludesTests reports whether a flag of go test excludes tests.
func excludesTests(flag string) bool {
	name, _, _ := strings.Cut(strings.TrimLeft(flag, "-"), "=")
	return name == "run" || name == "skip" || name == "short"
}

// module is a folder with a go.mod.
type module struct {
	dir   string
	alone bool // not in the workspace
}

func workspace(ctx context.Context, alone string) ([]module, error) {
	list, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return nil, fmt.Errorf("list the modules of the workspace: %w%s", err, stderrOf(err))
	}
	var modules []module
	for _, dir := range strings.Fields(string(list)) {
		modules = append(modules, module{dir: dir})
	}
	for _, dir := range commaList(alone) {
		modules = append(modules, module{dir: dir, alone: true})
	}
	return modules, nil
}

func commaList(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' })
}

func stderrOf(err error) string {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return "\n" + string(exit.Stderr)
	}
	return ""
}

// command returns a go command that runs in the module's folder.
func (m module) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = m.dir
	cmd.Env = os.Environ()
	if m.alone {
		cmd.Env = append(cmd.Env, "GOWORK=off")
	}
	// On an interrupt, unlike on a kill, go test ends its test processes, and they end the
	// processes that they have started.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	return cmd
}
