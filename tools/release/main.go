package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

const usage = "usage: release packages|all|check [flags]; release packages -h lists the flags"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Stdout, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// release has the options of a release.
type release struct {
	root       string // folder of the sources
	out        string // folder of the results
	version    string // of the packages and programs
	commit     string // of the sources; empty if unknown
	time       time.Time
	maintainer string   // of the packages, NAME <ADDRESS>
	daemons    []string // the names of the daemons; the command line is not among them
	arches     []string // as Go calls them
	cache      string   // folder of Go's build cache; empty: the usual one
	log        io.Writer
}

func run(ctx context.Context, out io.Writer, args []string) error {
	if len(args) == 0 || !slices.Contains([]string{"packages", "all", "check"}, args[0]) {
		return errors.New(usage)
	}
	r, fresh, err := parse(ctx, out, args[0], args[1:])
	if err != nil {
		return err
	}
	switch args[0] {
	case "packages":
		return r.make(ctx, r.makePackages)
	case "all":
		return r.make(ctx, r.makePackages, r.makeArchives, r.makeSBOM)
	default:
		return r.check(ctx, fresh)
	}
}

// parse returns the release that the flags describe. The default version, the commit and the default time are
// from the repository of the sources. The flag -version and SOURCE_DATE_EPOCH override them.
func parse(ctx context.Context, log io.Writer, command string, args []string) (r *release, fresh bool, err error) {
	r = &release{log: log}
	flags := flag.NewFlagSet("release "+command, flag.ContinueOnError)
	flags.StringVar(&r.root, "root", ".", "folder of the sources")
	flags.StringVar(&r.out, "out", "dist", "folder of the results; files of the same names in it are replaced")
	flags.StringVar(&r.version, "version", "", "version of the packages and programs, such as 1.2.0; empty: the tag of the last commit, or its time and number")
	flags.StringVar(&r.maintainer, "maintainer", "Portolan <portolan@localhost>", "maintainer of the packages")
	daemons := flags.String("daemons", "", "daemons to package, separated by spaces")
	arches := flags.String("arch", "amd64,arm64", "architectures, separated by commas")
	if command == "check" {
		flags.BoolVar(&fresh, "fresh", false, "build the second time with an empty build cache, which takes minutes")
	}
	if err := flags.Parse(args); err != nil {
		return nil, false, err
	}
	r.daemons, r.arches = strings.Fields(*daemons), strings.Split(*arches, ",")
	if flags.NArg() > 0 || len(r.daemons) == 0 {
		return nil, false, fmt.Errorf("-daemons: at least one is required, and nothing but flags: got %q", flags.Args())
	}
	if r.root, err = filepath.Abs(r.root); err == nil {
		r.out, err = filepath.Abs(r.out)
	}
	if err := errors.Join(err, r.date(ctx, os.Getenv("SOURCE_DATE_EPOCH"))); err != nil {
		return nil, false, err
	}
	return r, fresh, r.validate()
}

var (
	versionFormat    = regexp.MustCompile(`^[0-9][A-Za-z0-9.+~]*$`)
	maintainerFormat = regexp.MustCompile(`^[^<>\n]+ <[^<>\s]+@[^<>\s]+>$`)
)

func (r *release) validate() error {
	if !versionFormat.MatchString(r.version) {
		return fmt.Errorf("-version %q: want a digit, then letters, digits, dots, + and ~, such as 1.2.0 or 1.3.0~rc1", r.version)
	}
	if !maintainerFormat.MatchString(r.maintainer) {
		return fmt.Errorf("-maintainer %q: want NAME <ADDRESS>", r.maintainer)
	}
	for _, arch := range r.arches {
		if _, known := machines[arch]; !known {
			return fmt.Errorf("-arch %q: want amd64 or arm64", arch)
		}
	}
	return nil
}

// make builds the programs, generates files, runs the steps, and writes the checksums.
func (r *release) make(ctx context.Context, steps ...func() error) error {
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	for _, arch := range r.arches {
		if err := r.build(ctx, arch); err != nil {
			return err
		}
	}
	if err := r.generate(ctx); err != nil {
		return err
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return r.writeChecksums()
}
