package rig

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

// Flags are the settings that all benchmarks have.
type Flags struct {
	Quick   bool
	Profile string // folder for CPU profiles; empty: none

	bin, only string
}

// Register defines the flags. parts are the parts that are measured by default, and others the parts that
// are measured only if they are named, both separated by commas.
func (f *Flags) Register(parts, others string) {
	usage := "what to measure"
	if others != "" {
		usage += "; these have to be named: " + others
	}
	flag.BoolVar(&f.Quick, "quick", false, "fewer objects and repetitions")
	flag.StringVar(&f.bin, "bin", "bin", "folder of the built daemons")
	flag.StringVar(&f.only, "only", parts, usage)
	flag.StringVar(&f.Profile, "profile", "", "folder for CPU profiles of the daemons that are measured")
}

// Measure starts a rig, measures the chosen parts with it, and closes it.
func (f *Flags) Measure(ctx context.Context, parts func(*Rig) map[string]Part) error {
	r, ctx, err := start(ctx, f.bin)
	if err != nil {
		return err
	}
	defer r.close()
	return r.measure(ctx, strings.Split(f.only, ","), parts(r))
}

// StartProfiles writes CPU profiles of daemons for some seconds, if there is a folder for them. The keys of
// the map are the names of the files without their ending. The returned function waits for the profiles.
func (f *Flags) StartProfiles(ctx context.Context, seconds int, daemons map[string]*Daemon) (wait func() error) {
	if f.Profile == "" {
		return func() error { return nil }
	}
	saved := make(chan error, len(daemons))
	for name, d := range daemons {
		go func() { saved <- d.profile(ctx, seconds, filepath.Join(f.Profile, name+".pprof")) }()
	}
	return func() (err error) {
		for range daemons {
			err = errors.Join(err, <-saved)
		}
		return err
	}
}

// Main runs a benchmark until it ends or a signal arrives. It ends the process if the benchmark fails.
func Main(name string, run func(context.Context) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, name+":", err)
		os.Exit(1)
	}
}
