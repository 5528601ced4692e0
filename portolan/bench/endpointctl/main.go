package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"portolan.dev/portolan/bench/internal/rig"
)

func main() {
	rig.BecomeNATS()
	quick := flag.Bool("quick", false, "fewer objects and repetitions")
	bin := flag.String("bin", "bin", "folder of the built daemons")
	only := flag.String("only", "cold,flip,rolling", "what to measure")
	profile := flag.String("profile", "", "folder for CPU profiles of endpointctl and the registry")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, &bench{quick: *quick, profile: *profile}, *bin, strings.Split(*only, ","))
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-endpointctl:", err)
		os.Exit(1)
	}
}

// bench is one run.
type bench struct {
	quick   bool
	profile string
	rig     *rig.Rig
}

func run(ctx context.Context, b *bench, bin string, only []string) (err error) {
	if b.rig, ctx, err = rig.Start(ctx, bin); err != nil {
		return err
	}
	defer b.rig.Close()
	parts := map[string]rig.Part{"cold": b.measureCold, "flip": b.measureFlip, "rolling": b.measureRolling}
	return b.rig.Measure(ctx, only, parts)
}
