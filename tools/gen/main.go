package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"

	"portolan.dev/tools/gen/kindapi"
)

// errDiffers makes -check exit with code 1 after the files were listed.
var errDiffers = errors.New("generated files are not what their sources say; run `make generate` and commit the result")

func main() {
	var p project
	flag.StringVar(&p.root, "root", "proto", "folder that imports are relative to; every .proto below it is compiled")
	flag.StringVar(&p.out, "out", "api", "folder of the generated code, the root of the module -module")
	flag.StringVar(&p.module, "module", "portolan.dev/api", "module path that the go_package options begin with")
	flag.StringVar(&p.bin, "plugins", ".bin", "folder of the plugin binaries")
	flag.StringVar(&p.kinds, "kinds", "", "Go file with the table of kinds, from which the .proto files of their services are generated; empty: none")
	flag.Var((*list)(&p.coded), "coded", "folder or file below -root whose messages are encoded without reflection; repeatable")
	flag.Var((*list)(&p.fast), "fast", "the same, and the messages are copied and compared without reflection; repeatable")
	check := flag.Bool("check", false, "compare with what is there instead of writing")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := p.run(ctx, *check)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

// list is the value of a flag that may be repeated.
type list []string

func (l *list) String() string { return strings.Join(*l, " ") }

func (l *list) Set(entry string) error {
	*l = append(*l, entry)
	return nil
}

// run generates the services of kinds and then the code of the project. With check it writes nothing and
// fails if a file in the tree differs.
func (p project) run(ctx context.Context, check bool) error {
	var differ []string
	if p.kinds != "" {
		services, err := kindapi.Generate(ctx, p.root, p.kinds)
		if err != nil {
			return err
		}
		stale, err := kindapi.Stale(p.root, services)
		if err != nil {
			return err
		}
		if differ, err = update(p.root, services, stale, check); err != nil {
			return err
		}
	}
	code, err := p.generate(ctx)
	if err != nil {
		return err
	}
	stale, err := staleFiles(p.out, code)
	if err != nil {
		return err
	}
	more, err := update(p.out, code, stale, check)
	if err != nil {
		return err
	}
	differ = append(differ, more...)
	for _, line := range differ {
		fmt.Println(line)
	}
	if len(differ) > 0 {
		return errDiffers
	}
	return nil
}

// update writes files below root and removes the stale ones. With check it only returns the differences.
func update(root string, want map[string][]byte, stale []string, check bool) ([]string, error) {
	if check {
		return compare(root, want, stale), nil
	}
	return nil, write(root, want, stale)
}
