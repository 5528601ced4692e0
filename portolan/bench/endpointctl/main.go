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

// serveNATS is the flag with which the command starts itself as the NATS server.
const serveNATS = "serve-nats"

func main() {
	quick := flag.Bool("quick", false, "fewer objects and repetitions")
	bin := flag.String("bin", "bin", "folder of the built daemons")
	only := flag.String("only", "cold,flip,rolling", "what to measure")
	profile := flag.String("profile", "", "folder for CPU profiles of endpointctl and the registry")
	broker := flag.String(serveNATS, "", "be a NATS server with its data in this folder; used by the command itself")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var err error
	if *broker != "" {
		err = rig.ServeNATS(ctx, *broker)
	} else {
		err = run(ctx, &bench{quick: *quick, profile: *profile}, *bin, strings.Split(*only, ","))
	}
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
	if b.rig, ctx, err = rig.Start(ctx, bin, "-"+serveNATS); err != nil {
		return err
	}
	defer b.rig.Close()
	parts := map[string]rig.Part{"cold": b.measureCold, "flip": b.measureFlip, "rolling": b.measureRolling}
	return b.rig.Measure(ctx, only, parts)
}
