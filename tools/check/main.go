package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
)

const usage = "usage: check code PACKAGE…, or check vulnerabilities [-db URL] PROGRAM…"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "check:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, args []string) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	switch args[0] {
	case "code":
		if len(args) < 2 {
			return errors.New(usage)
		}
		return checkCode(ctx, out, ".", args[1:])
	case "vulnerabilities":
		flags := flag.NewFlagSet("vulnerabilities", flag.ContinueOnError)
		named := flags.String("db", "", "the database, as URL; "+publicDatabase+" if none is named")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		if flags.NArg() == 0 {
			return errors.New(usage)
		}
		db := database{url: publicDatabase}
		if *named != "" {
			db = database{url: *named, named: true}
		}
		return checkVulnerabilities(ctx, out, db, flags.Args())
	}
	return errors.New(usage)
}
