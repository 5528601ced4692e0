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
	quick := flag.Bool("quick", false, "short measurements, one round")
	bin := flag.String("bin", "bin", "folder of the built registry and allocator")
	only := flag.String("only", "create,bulk,store,write,list,watch,answer,kernel", "what to measure; turns and account have to be named")
	against := flag.String("against", "", "folder of an earlier registry and allocator, which \"turns\" compares with bin")
	profile := flag.String("profile", "", "folder for CPU profiles, of the registry and the allocator under 64 clients or of what is measured")
	plain := flag.Bool("serve-plain", false, "be the server that a list is compared with; used by the command itself")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var err error
	if *plain {
		err = servePlain(ctx)
	} else {
		err = run(ctx, &bench{quick: *quick, against: *against, profile: *profile}, *bin, strings.Split(*only, ","))
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-registry:", err)
		os.Exit(1)
	}
}

// bench is one run.
type bench struct {
	quick            bool
	against, profile string
	rig              *rig.Rig
	postgres         cluster
}

func run(ctx context.Context, b *bench, bin string, only []string) (err error) {
	if b.rig, ctx, err = rig.Start(ctx, bin); err != nil {
		return err
	}
	defer b.rig.Close()
	b.postgres = cluster{b.rig.Postgres}
	parts := map[string]rig.Part{
		"create": b.measureCreate, "account": b.measureAccount, "bulk": b.measureBulk, "turns": b.measureTurns, "store": b.measureStore, "write": b.measureWrite, "list": b.measureList, "watch": b.measureWatch, "answer": b.measureAnswer, "kernel": b.measureKernel,
	}
	return b.rig.Measure(ctx, only, parts)
}
