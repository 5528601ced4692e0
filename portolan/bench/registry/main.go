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
	quick := flag.Bool("quick", false, "short measurements, one round")
	bin := flag.String("bin", "bin", "folder of the built registry and allocator")
	only := flag.String("only", "create,bulk,store,write,list,watch,answer,kernel", "what to measure; turns and account have to be named")
	against := flag.String("against", "", "folder of an earlier registry and allocator, which \"turns\" compares with bin")
	profile := flag.String("profile", "", "folder for CPU profiles, of the registry and the allocator under 64 clients or of what is measured")
	plain := flag.Bool("serve-plain", false, "be the server that a list is compared with; used by the command itself")
	broker := flag.String(serveNATS, "", "be a NATS server with its data in this folder; used by the command itself")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var err error
	switch {
	case *plain:
		err = servePlain(ctx)
	case *broker != "":
		err = rig.ServeNATS(ctx, *broker)
	default:
		err = run(ctx, &bench{quick: *quick, bin: *bin, against: *against, profile: *profile}, strings.Split(*only, ","))
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-registry:", err)
		os.Exit(1)
	}
}

// bench is one run.
type bench struct {
	quick        bool
	bin, against string
	profile      string
	rig          *rig.Rig
	postgres     cluster
}

// serveNATS is the flag with which the program calls itself as the NATS server.
const serveNATS = "serve-nats"

// startDaemon starts one of the programs that are measured.
func (b *bench) startDaemon(ctx context.Context, name string, args ...string) (*rig.Daemon, error) {
	return b.rig.StartDaemonOf(ctx, b.bin, name, args...)
}

func run(ctx context.Context, b *bench, only []string) (err error) {
	if b.rig, ctx, err = rig.Start(ctx, b.bin, "-"+serveNATS); err != nil {
		return err
	}
	defer b.rig.Close()
	b.postgres = cluster{b.rig.Postgres}
	parts := map[string]rig.Part{
		"create": b.measureCreate, "account": b.measureAccount, "bulk": b.measureBulk, "turns": b.measureTurns, "store": b.measureStore, "write": b.measureWrite, "list": b.measureList, "watch": b.measureWatch, "answer": b.measureAnswer, "kernel": b.measureKernel,
	}
	return b.rig.Measure(ctx, only, parts)
}
