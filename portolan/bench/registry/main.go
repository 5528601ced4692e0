package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"

	"portolan.dev/services/kit/yardstick"
)

func main() {
	quick := flag.Bool("quick", false, "short measurements, one round")
	bin := flag.String("bin", "bin", "folder of the built registry and allocator")
	only := flag.String("only", "create,store,write,list,watch,answer,kernel", "what to measure")
	profile := flag.String("profile", "", "folder for CPU profiles of the registry and the allocator under 64 clients")
	plain := flag.Bool("serve-plain", false, "be the server that a list is compared with; used by the command itself")
	broker := flag.String("serve-nats", "", "be a NATS server with its data in this folder; used by the command itself")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var err error
	switch {
	case *plain:
		err = servePlain(ctx)
	case *broker != "":
		err = serveNATS(ctx, *broker)
	default:
		err = run(ctx, &bench{quick: *quick, bin: *bin, profile: *profile}, strings.Split(*only, ","))
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
	bin, profile string
	dir          string
	postgres     *cluster
	nats         string
	cleanup      []func()
	ratios       []string
}

// ratio keeps a line for the end of the output.
func (b *bench) ratio(name string, value float64, target yardstick.Target) {
	b.ratios = append(b.ratios, yardstick.Line(name, value, target))
}

// deferCleanup runs fn at the end, in reverse order.
func (b *bench) deferCleanup(fn func()) { b.cleanup = append(b.cleanup, fn) }

func run(ctx context.Context, b *bench, only []string) (err error) {
	defer func() {
		for i := len(b.cleanup) - 1; i >= 0; i-- {
			b.cleanup[i]()
		}
	}()
	if b.dir, err = os.MkdirTemp("", "bench-registry-"); err != nil {
		return err
	}
	b.deferCleanup(func() { _ = os.RemoveAll(b.dir) })
	if err := os.Chmod(b.dir, 0o755); err != nil { // Postgres runs as another user
		return err
	}
	if b.postgres, err = b.startPostgres(ctx); err != nil {
		return err
	}
	if b.nats, err = b.startNATS(ctx); err != nil {
		return err
	}
	fmt.Printf("%d CPUs, %s; load before: %s\n", runtime.NumCPU(), b.postgres.version, loadavg())
	parts := map[string]func(context.Context) error{
		"create": b.measureCreate, "store": b.measureStore, "write": b.measureWrite, "list": b.measureList, "watch": b.measureWatch, "answer": b.measureAnswer, "kernel": b.measureKernel,
	}
	for _, name := range only {
		measure := parts[name]
		if measure == nil {
			return fmt.Errorf("nothing is called %q", name)
		}
		if err := measure(ctx); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	fmt.Printf("\nload after: %s\n", loadavg())
	fmt.Println(strings.Join(b.ratios, "\n"))
	return nil
}

// loadavg returns the load averages of the machine.
func loadavg() string {
	content, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(content))[:3], " ")
}
