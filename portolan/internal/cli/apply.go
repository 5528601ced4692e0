package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"portolan.dev/services/applyset"
	"portolan.dev/services/client"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
)

// applyOptions are the flags of apply.
type applyOptions struct {
	files     []string
	namespace string
	prune     bool
	selector  string
	dryRun    bool
	strict    bool
}

func newApply(flags *connection) *cobra.Command {
	options := &applyOptions{}
	command := &cobra.Command{
		Use:   "apply -f FILE|DIR|-",
		Short: "Create or change objects as manifests say",
		Long: `apply reads Kubernetes manifests, YAML or JSON, and creates or changes the objects in them. Applying twice changes nothing. A field that an
earlier apply has set and that the manifest no longer has is removed; fields that others have set stay. "portolan diff" shows the changes
beforehand. Documents of kinds that Portolan does not have are skipped, with a warning each; --strict makes them an error.

With --prune, apply also deletes objects that the manifests no longer have. Such an object must match the selector -l, must have been applied
before, and must be in a namespace of the manifests or of -n. All manifests must match the selector. Nothing is pruned if an object could not be
applied. Nodes, Revocations, Leases, Events, and objects that have an owner are never pruned.`,
		Example: `  portolan apply -f service.yaml
  portolan apply -f manifests/ --dry-run
  portolan apply -f manifests/ --prune -l app.kubernetes.io/part-of=shop
  helm template shop | portolan apply -f -`,
		Args: arguments(cobra.NoArgs, "-f FILE"),
		RunE: flags.withRegistry(func(command *cobra.Command, _ []string, registry *client.Client) error {
			return apply(command.Context(), command, registry, options)
		}),
	}
	options.register(command)
	command.Flags().BoolVar(&options.dryRun, "dry-run", false, "check everything, change nothing")
	return command
}

// register adds the flags that select manifests.
func (o *applyOptions) register(command *cobra.Command) {
	set := command.Flags()
	set.StringArrayVarP(&o.files, "filename", "f", nil, "file, folder (its .yaml, .yml and .json files) or - for standard input; may be repeated")
	set.StringVarP(&o.namespace, "namespace", "n", "", "namespace of objects that do not name one (default \"default\")")
	set.BoolVar(&o.prune, "prune", false, "delete objects that were applied earlier, match -l and are not in the manifests")
	set.StringVarP(&o.selector, "selector", "l", "", "labels that all objects of the manifests have, such as app=shop; for --prune")
	set.BoolVar(&o.strict, "strict", false, "refuse kinds that Portolan does not have")
	_ = command.MarkFlagRequired("filename")
}

// objects reads the objects of the manifests.
func (o *applyOptions) objects(command *cobra.Command) ([]object.Object, error) {
	documents, err := readManifests(command.InOrStdin(), o.files)
	if err != nil {
		return nil, err
	}
	return objectsOf(command.ErrOrStderr(), documents, o.namespace, o.strict)
}

// set returns the set of the objects, or nil if nothing is to be pruned.
func (o *applyOptions) set(objects []object.Object) (*applyset.Set, error) {
	switch {
	case !o.prune && o.selector != "":
		return nil, usageError{errors.New("-l selects what --prune may delete; add --prune, or leave out -l")}
	case !o.prune:
		return nil, nil
	case o.selector == "":
		return nil, usageError{errors.New("--prune needs the labels of the manifests: -l app=shop; without them, every object that was ever applied would be deleted")}
	}
	return applyset.NewSet(objects, applyset.SetOptions{Selector: o.selector, Namespace: o.namespace})
}

func apply(ctx context.Context, command *cobra.Command, registry *client.Client, options *applyOptions) error {
	objects, err := options.objects(command)
	if err != nil {
		return err
	}
	set, err := options.set(objects)
	if err != nil {
		return err
	}
	run := newApplyRun(newBulkOperation(command, len(objects), "applied"), registry, options.dryRun)
	run.Apply(ctx, objects)
	if err := run.result(); err != nil || set == nil {
		return err
	}
	stale, err := set.Stale(ctx, registry)
	if err != nil {
		return err
	}
	pruning := newApplyRun(newBulkOperation(command, len(stale), "pruned"), registry, options.dryRun)
	pruning.Prune(ctx, set, stale)
	return pruning.result()
}

// applyRun prints the outcome of each object that is applied or pruned.
type applyRun struct {
	*bulkOperation
	applyset.Run
}

func newApplyRun(operation *bulkOperation, registry *client.Client, dryRun bool) *applyRun {
	r := &applyRun{bulkOperation: operation, Run: applyset.Run{Registry: registry, DryRun: dryRun}}
	r.Report = r.print
	return r
}

// print prints the result of an object.
func (r *applyRun) print(result applyset.Result) {
	label := applyset.Name(result.Object)
	if result.Err != nil {
		r.finish(nil, fmt.Errorf("%s: %s", label, apierr.Describe(result.Err)))
		return
	}
	dry := ""
	if r.DryRun {
		dry = " (dry run)"
	}
	r.finish(func() {
		for _, warning := range result.Warnings {
			_, _ = fmt.Fprintf(r.errOut, "warning: %s: %s\n", label, warning)
		}
		_, _ = fmt.Fprintf(r.out, "%s %s%s\n", label, result.Action, dry)
	}, nil)
}

// objectsOf returns the objects of documents, and prints a warning for each document that is left
// out.
func objectsOf(errOut io.Writer, documents []document, namespace string, strict bool) ([]object.Object, error) {
	var objects []object.Object
	var refused []error
	for _, d := range documents {
		for _, warning := range d.Warnings {
			_, _ = fmt.Fprintf(errOut, "warning: %s: %s\n", d.where(), warning)
		}
		if d.Object == nil {
			text := fmt.Sprintf("%s: %s is not a kind of Portolan's", d.where(), d.Skipped)
			if strict {
				refused = append(refused, errors.New(text))
			} else {
				_, _ = fmt.Fprintf(errOut, "warning: %s; skipped\n", text)
			}
			continue
		}
		applyset.SetNamespace(d.Object, namespace)
		objects = append(objects, d.Object)
	}
	return objects, errors.Join(refused...)
}
