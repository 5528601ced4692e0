package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"portolan.dev/portolan/internal/client"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
)

// deleteOptions are the flags of delete.
type deleteOptions struct {
	namespaceFlags
	files         []string
	dryRun        bool
	ignoreMissing bool
}

func newDelete(flags *connection) *cobra.Command {
	options := &deleteOptions{}
	command := &cobra.Command{
		Use:   "delete KIND NAME... | -f FILE",
		Short: "Delete objects",
		Example: `  portolan delete service web
  portolan delete svc web api -n shop
  portolan delete -f service.yaml`,
		ValidArgsFunction: completeTarget(flags, &options.namespaceFlags),
		RunE: flags.withRegistry(func(command *cobra.Command, args []string, registry *client.Client) error {
			keys, err := options.keys(command, args)
			if err != nil {
				return err
			}
			return deleteAll(command.Context(), command, registry, keys, options)
		}),
	}
	options.register(command, false)
	command.Flags().StringArrayVarP(&options.files, "filename", "f", nil, "delete the objects of this file, folder or - for standard input")
	command.Flags().BoolVar(&options.dryRun, "dry-run", false, "check, delete nothing")
	command.Flags().BoolVar(&options.ignoreMissing, "ignore-not-found", false, "an object that is not there is no error")
	return command
}

// keys returns the objects meant. Those of manifests come in reverse, so that what others refer to goes last.
func (o *deleteOptions) keys(command *cobra.Command, args []string) ([]object.Key, error) {
	switch {
	case len(o.files) > 0 && len(args) > 0:
		return nil, usageError{errors.New("name objects, or files with -f, not both")}
	case len(o.files) > 0:
		return o.keysOfFiles(command)
	case len(args) == 0 || len(args) == 1 && !strings.Contains(args[0], "/"):
		return nil, usageError{errors.New("say what to delete: KIND NAME, or -f FILE")}
	}
	first, err := parseTarget(args[:min(2, len(args))])
	if err != nil {
		return nil, err
	}
	keys := []object.Key{{Kind: first.kind.Name, Namespace: o.namespaceOf(first.kind), Name: first.name}}
	for _, name := range args[min(2, len(args)):] {
		keys = append(keys, object.Key{Kind: first.kind.Name, Namespace: o.namespaceOf(first.kind), Name: name})
	}
	return keys, nil
}

func (o *deleteOptions) keysOfFiles(command *cobra.Command) ([]object.Key, error) {
	documents, err := readManifests(command.InOrStdin(), o.files)
	if err != nil {
		return nil, err
	}
	objects, err := objectsOf(command.ErrOrStderr(), documents, o.namespace, false)
	if err != nil {
		return nil, err
	}
	keys := make([]object.Key, 0, len(objects))
	for _, found := range slices.Backward(objects) {
		keys = append(keys, object.KeyOf(found))
	}
	return keys, nil
}

func deleteAll(ctx context.Context, command *cobra.Command, registry *client.Client, keys []object.Key, options *deleteOptions) error {
	var failures []error
	for _, key := range keys {
		kind, _ := object.KindNamed(key.Kind)
		label := strings.ToLower(key.Kind) + "/" + key.Name
		last, err := registry.Delete(ctx, kind, key.Namespace, key.Name, options.dryRun)
		if options.ignoreMissing && status.Code(err) == codes.NotFound {
			continue
		}
		if err != nil {
			failures = append(failures, fmt.Errorf("%s: %s", label, apierr.Describe(err)))
			continue
		}
		_, _ = fmt.Fprintf(command.OutOrStdout(), "%s %s\n", label, deletedWord(last, options.dryRun))
	}
	return errors.Join(failures...)
}

func deletedWord(last object.Object, dryRun bool) string {
	switch {
	case dryRun:
		return "would be deleted (dry run)"
	case len(last.GetMetadata().GetFinalizers()) > 0:
		return "is being deleted; waiting for " + strings.Join(last.GetMetadata().GetFinalizers(), ", ")
	default:
		return "deleted"
	}
}
