package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"time"
)

// options are the values of the flags.
type options struct {
	root    string
	results string
	most    int
	seed    uint64
	budget  time.Duration
	report  bool
	again   bool
	grace   time.Duration // time for tests beyond twice their time without a mutant
	env     []string
	targets []target
}

func main() {
	o := options{grace: 20 * time.Second}
	flag.StringVar(&o.root, "root", ".", "folder of the workspace")
	flag.StringVar(&o.results, "results", ".bin/mutants.jsonl", "file of results: a run goes on where the one before ended")
	flag.IntVar(&o.most, "n", 40, "mutants of each package")
	flag.Uint64Var(&o.seed, "seed", 1, "seed of the sample")
	flag.DurationVar(&o.budget, "for", 0, "end after this long; 0: when all is done")
	flag.BoolVar(&o.report, "report", false, "try nothing, print the table of what was tried")
	flag.BoolVar(&o.again, "again", false, "try those again that survived, as after tests were written")
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), `usage: mutate [flags] [PACKAGE…]

Changes each package in one place after the other and tells which changes its tests do not notice.
Packages are folders below the root; without any it goes through those of targets.go.

  mutate -n 20 registry/internal/gc      20 mutants of one package
  mutate -for 2h                all packages, for two hours; the next run goes on
  mutate -again registry/internal/gc     the same, and those that survived once more
  mutate -report                the table so far

`)
		flag.PrintDefaults()
	}
	flag.Parse()
	o.targets = choose(flag.Args())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := mutate(ctx, os.Stdout, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

// errBudget is the cause of ending a run after its time is over. It is not a failure.
var errBudget = errors.New("the time is over; run it again to go on")

// mutate tries the mutants of all targets and prints the table.
func mutate(ctx context.Context, out io.Writer, o options) error {
	if o.budget > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, o.budget, errBudget)
		defer cancel()
	}
	for _, t := range o.targets {
		if err := t.check(o.root); err != nil {
			return err
		}
	}
	r, err := openResults(o.results)
	if err != nil {
		return err
	}
	defer r.file.Close()
	var order []string
	tallies := map[string]*tally{}
	for _, t := range o.targets {
		order = append(order, t.pkg)
		tallies[t.pkg] = &tally{}
		if err := o.try(ctx, out, r, t, tallies[t.pkg]); err != nil && ctx.Err() == nil {
			return fmt.Errorf("%s: %w", t.pkg, err)
		}
	}
	printTable(out, order, tallies)
	if cause := context.Cause(ctx); errors.Is(cause, errBudget) {
		fmt.Fprintln(out, cause)
		return nil
	}
	return ctx.Err()
}

// try tries the mutants of a target that have no result yet, and adds all results to sum.
func (o options) try(ctx context.Context, out io.Writer, r *results, t target, sum *tally) error {
	all, err := mutantsOf(t.pkg, filepath.Join(o.root, t.pkg))
	if err != nil {
		return err
	}
	shuffle(all, o.seed)
	tester := &tester{root: o.root, env: o.env, grace: o.grace}
	var limits map[string]time.Duration
	for _, m := range all {
		if sum.tried() >= o.most {
			break
		}
		one, known := r.done[m.identity()]
		switch {
		case known && (one.Outcome != survived || !o.again || o.report || ctx.Err() != nil):
		case o.report || ctx.Err() != nil:
			continue
		default:
			if limits == nil {
				if limits, err = tester.limits(ctx, t.tests); err != nil {
					return err
				}
			}
			if one, err = tester.runMutant(ctx, t.tests, m, limits); err != nil {
				return err
			}
			if err := r.add(one); err != nil {
				return err
			}
			fmt.Fprintf(out, "%-8s %5.1fs %s\n", one.Outcome, one.Seconds, m)
		}
		sum.add(one)
	}
	return nil
}

// shuffle sorts the mutants of a package in a random order determined by the seed.
func shuffle(all []mutant, seed uint64) {
	if len(all) == 0 {
		return
	}
	name := fnv.New64a()
	_, _ = name.Write([]byte(all[0].Package))
	random := rand.New(rand.NewPCG(seed, name.Sum64()))
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
}
