package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
)

// errDiffers makes -check exit with code 1 after the documents were listed.
var errDiffers = errors.New("the documents are not what is served; run `make generate` and commit the result")

func main() {
	out := flag.String("out", "kubeapi/internal/openapi/documents", "folder of the documents")
	check := flag.Bool("check", false, "compare with what is there instead of writing")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *out, *check)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out string, check bool) error {
	source, err := fetch(ctx)
	if err != nil {
		return err
	}
	want, err := documents(source)
	if err != nil {
		return err
	}
	if !check {
		return write(out, want)
	}
	differ, err := compare(out, want)
	if err != nil {
		return err
	}
	for _, line := range differ {
		fmt.Println(line)
	}
	if len(differ) > 0 {
		return errDiffers
	}
	return nil
}
