package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"

	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/types/pluginpb"

	"portolan.dev/tools/gen/compile"
)

// errDiffers makes -check exit with code 1 after the files were listed.
var errDiffers = errors.New("generated code is not what the contract says; run `make generate` and commit the result")

func main() {
	var p project
	flag.StringVar(&p.root, "root", "proto", "folder that imports are relative to; every .proto below it is compiled")
	flag.StringVar(&p.out, "out", "api", "folder of the generated code, the root of the module -module")
	flag.StringVar(&p.module, "module", "portolan.dev/api", "module path that the go_package options begin with")
	flag.StringVar(&p.bin, "plugins", ".bin", "folder of the plugin binaries")
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

// run generates the code of the project. With check it writes nothing and fails if the code in the
// tree differs.
func (p project) run(ctx context.Context, check bool) error {
	contract, err := compile.Below(ctx, p.root)
	if err != nil {
		return err
	}
	for _, warning := range contract.Warnings {
		return warning
	}
	request := &pluginpb.CodeGeneratorRequest{FileToGenerate: contract.Names}
	for _, file := range contract.Files {
		request.ProtoFile = append(request.ProtoFile, protoutil.ProtoFromFileDescriptor(file))
	}
	want, err := p.generate(ctx, request)
	if err != nil {
		return err
	}
	stale, err := staleFiles(p.out, want)
	if err != nil {
		return err
	}
	if !check {
		return write(p.out, want, stale)
	}
	differ := compare(p.out, want, stale)
	for _, line := range differ {
		fmt.Println(line)
	}
	if len(differ) > 0 {
		return errDiffers
	}
	return nil
}
