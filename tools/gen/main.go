package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
)

// errDiffers makes -check exit with code 1 after the files were listed.
var errDiffers = errors.New("generated code is not what the contract says; run `make generate` and commit the result")

func main() {
	root := flag.String("root", "proto", "folder that imports are relative to; every .proto below it is compiled")
	bin := flag.String("plugins", ".bin", "folder of the plugin binaries")
	check := flag.Bool("check", false, "compare with what is there instead of writing")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *root, *bin, *check)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, root, bin string, check bool) error {
	request, err := compile(ctx, root)
	if err != nil {
		return err
	}
	want, err := generate(ctx, bin, request)
	if err != nil {
		return err
	}
	stale, err := staleFiles(root, want)
	if err != nil {
		return err
	}
	if !check {
		return write(root, want, stale)
	}
	differ := compare(root, want, stale)
	for _, line := range differ {
		fmt.Println(line)
	}
	if len(differ) > 0 {
		return errDiffers
	}
	return nil
}
