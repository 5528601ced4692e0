package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/terminal"
)

// usageError is the error of a command that was not understood.
type usageError struct{ error }

// exitError ends the command with an exit code and without a message, because everything has been
// printed.
type exitError struct{ code int }

func (e exitError) Error() string { return fmt.Sprintf("exit code %d", e.code) }

// Main runs the command line and returns its exit code. Its output is safe for a terminal.
func Main(ctx context.Context, args []string, in io.Reader, rawOut, rawErr io.Writer) int {
	out, errOut := terminal.NewWriter(rawOut), terminal.NewWriter(rawErr)
	defer func() { _ = errors.Join(out.Close(), errOut.Close()) }()
	root := Root()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errOut)
	command, err := root.ExecuteContextC(ctx)
	var quiet exitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &quiet):
		return quiet.code
	}
	_, _ = fmt.Fprintln(errOut, "error:", apierr.Describe(err))
	var usage usageError
	if errors.As(err, &usage) {
		_, _ = fmt.Fprintf(errOut, "\n%s --help shows how it is used.\n", command.CommandPath())
		return 2
	}
	return 1
}

// Root returns the whole tree of commands.
func Root() *cobra.Command {
	flags := &connection{}
	root := &cobra.Command{
		Use:   "portolan",
		Short: "Virtual IPs, names and load balancing for any set of machines",
		Long: `portolan speaks to a Portolan registry: it applies manifests, shows and explains the objects, and runs programs as backends.
"portolan dev" runs a whole installation in one process.`,
		Example: `  portolan dev                                   # everything, on this machine, in this terminal
  portolan apply -f service.yaml
  portolan run -l app=web --port http=8080 -- ./server
  portolan get services
  portolan explain service web                   # why does it not answer?`,
		SilenceErrors:    true,
		SilenceUsage:     true,
		PersistentPreRun: func(command *cobra.Command, _ []string) { flags.setNamespace(command) },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	flags.register(root)
	root.AddCommand(
		newApply(flags), newDiff(flags), newGet(flags), newDescribe(flags), newDelete(flags), newExplain(flags), newEnv(flags), newRun(flags), newDNS(flags),
		newNode(flags), newCheck(flags), newEdge(flags), newRegistrar(flags), newPool(flags), newSecret(flags), newToken(flags), newKubeconfig(flags), newWait(flags), newExport(flags), newImport(flags), newDev(), newVersion(flags), newHello(), newAsk(), newPause(), newWithResolver(), newMan(), newCerts(flags),
	)
	return root
}

// arguments returns an argument check that fails with a usageError.
func arguments(check cobra.PositionalArgs, usage string) cobra.PositionalArgs {
	return func(command *cobra.Command, args []string) error {
		if err := check(command, args); err != nil {
			return usageError{fmt.Errorf("%w: want %s", err, usage)}
		}
		return nil
	}
}

// isTerminal reports whether a writer is a terminal.
func isTerminal(w io.Writer) bool {
	file, ok := terminal.Raw(w).(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
