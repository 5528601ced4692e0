package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"portolan.dev/services/client"
	"portolan.dev/services/kinds"
	"portolan.dev/services/object"
)

// applyOptions are the flags of apply.
type applyOptions struct {
	files     []string
	namespace string
	dryRun    bool
	strict    bool
}

func newApply(flags *connection) *cobra.Command {
	options := &applyOptions{}
	command := &cobra.Command{
		Use:   "apply -f FILE|DIR|-",
		Short: "Create or change objects as manifests say",
		Long: `apply reads Kubernetes manifests, YAML or JSON, and makes the registry hold what they say. Applying twice changes nothing. What an earlier
apply has set and the manifest no longer says is removed; what others have set stays. "portolan diff" shows the changes beforehand.
Documents of kinds that Portolan does not have are skipped, with a warning each; --strict makes them an error.`,
		Example: `  portolan apply -f service.yaml
  portolan apply -f manifests/ --dry-run
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

func apply(ctx context.Context, command *cobra.Command, registry *client.Client, options *applyOptions) error {
	objects, err := options.objects(command)
	if err != nil {
		return err
	}
	run := &applyRun{bulkOperation: newBulkOperation(command, len(objects), "applied"), registry: registry, dryRun: options.dryRun}
	forEachKind(objects, object.KeyOf, func(objects []object.Object) { run.apply(ctx, objects) })
	return run.result()
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
		setNamespace(d.Object, namespace)
		objects = append(objects, d.Object)
	}
	return objects, errors.Join(refused...)
}

func setNamespace(o object.Object, namespace string) {
	kind, _ := kinds.Named(object.KindOf(o))
	if meta := object.MetaOf(o); kind.Namespaced && meta.GetNamespace() == "" {
		meta.Namespace = namespace
	}
}

// labelOf returns an object's name as commands print it: "service/web".
func labelOf(o object.Object) string {
	return strings.ToLower(object.KindOf(o)) + "/" + o.GetMetadata().GetName()
}
