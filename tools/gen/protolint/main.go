package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"portolan.dev/tools/gen/compile"
)

func main() {
	root := flag.String("root", "proto", "folder that imports are relative to; every .proto below it is checked")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	contract, err := compile.Below(ctx, *root)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "protolint:", err)
		os.Exit(1)
	}
	violations := lint(contract)
	for _, violation := range violations {
		fmt.Println(violation)
	}
	if len(violations) > 0 {
		os.Exit(1)
	}
}
