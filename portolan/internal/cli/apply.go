package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"portolan.dev/portolan/internal/client"
	registryv1 "portolan.dev/proto/portolan/registry/v1"
	"portolan.dev/services/kit/apierr"
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
		Long: `apply reads Kubernetes manifests, YAML or JSON, and makes the registry hold what they say. Applying twice changes nothing.
Documents of kinds that Portolan does not have are skipped, with a warning each; --strict makes them an error.`,
		Example: `  portolan apply -f service.yaml
  portolan apply -f manifests/ --dry-run
  helm template shop | portolan apply -f -`,
		Args: arguments(cobra.NoArgs, "-f FILE"),
		RunE: flags.withRegistry(func(command *cobra.Command, _ []string, registry *client.Client) error {
			return apply(command.Context(), command, registry, options)
		}),
	}
	command.Flags().StringArrayVarP(&options.files, "filename", "f", nil, "file, folder (its .yaml, .yml and .json files) or - for standard input; may be repeated")
	command.Flags().StringVarP(&options.namespace, "namespace", "n", "", "namespace of objects that do not name one (default \"default\")")
	command.Flags().BoolVar(&options.dryRun, "dry-run", false, "check everything, change nothing")
	command.Flags().BoolVar(&options.strict, "strict", false, "refuse kinds that Portolan does not have")
	_ = command.MarkFlagRequired("filename")
	return command
}

func apply(ctx context.Context, command *cobra.Command, registry *client.Client, options *applyOptions) error {
	documents, err := readManifests(command.InOrStdin(), options.files)
	if err != nil {
		return err
	}
	objects, err := objectsOf(command.ErrOrStderr(), documents, options.namespace, options.strict)
	if err != nil {
		return err
	}
	run := &applyRun{ctx: ctx, registry: registry, options: options, out: command.OutOrStdout(), errOut: command.ErrOrStderr(), total: len(objects)}
	return run.all(objects)
}

// objectsOf returns the objects among documents, having warned of what is left out.
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
	kind, _ := object.KindNamed(object.KindOf(o))
	if meta := object.MetaOf(o); kind.Namespaced && meta.GetNamespace() == "" {
		meta.Namespace = namespace
	}
}

// applyRun is one run of apply. Objects of one kind are independent of each other and are sent side by side, which lets the registry commit
// them together; kinds follow one another in the order of the manifests.
type applyRun struct {
	ctx      context.Context
	registry *client.Client
	options  *applyOptions
	out      io.Writer
	errOut   io.Writer
	total    int

	mu       sync.Mutex // guards what follows
	done     int
	failures []error
	reported time.Time
}

const applyWorkers = 32

func (r *applyRun) all(objects []object.Object) error {
	r.reported = time.Now()
	for len(objects) > 0 {
		n := 1
		for n < len(objects) && object.KindOf(objects[n]) == object.KindOf(objects[0]) {
			n++
		}
		r.sideBySide(objects[:n])
		objects = objects[n:]
	}
	if len(r.failures) > 0 && r.total > 1 {
		_, _ = fmt.Fprintf(r.errOut, "%d of %d objects could not be applied\n", len(r.failures), r.total)
	}
	return errors.Join(r.failures...)
}

func (r *applyRun) sideBySide(objects []object.Object) {
	slots := make(chan struct{}, applyWorkers)
	var running sync.WaitGroup
	for _, o := range objects {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			r.one(o)
		})
	}
	running.Wait()
}

func (r *applyRun) one(o object.Object) {
	response, err := r.registry.Apply(r.ctx, o, r.options.dryRun)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done++
	label := strings.ToLower(object.KindOf(o)) + "/" + o.GetMetadata().GetName()
	if err != nil {
		r.failures = append(r.failures, fmt.Errorf("%s: %s", label, apierr.Describe(err)))
		return
	}
	for _, warning := range response.GetWarnings() {
		_, _ = fmt.Fprintf(r.errOut, "warning: %s: %s\n", label, warning)
	}
	dry := ""
	if r.options.dryRun {
		dry = " (dry run)"
	}
	_, _ = fmt.Fprintf(r.out, "%s %s%s\n", label, outcomeWord(response.GetOutcome()), dry)
	r.progress()
}

// progress tells a person who waits how far it is, at most once a second.
func (r *applyRun) progress() {
	if r.total < 100 || isTerminal(r.out) && r.done == r.total || time.Since(r.reported) < time.Second {
		return
	}
	r.reported = time.Now()
	_, _ = fmt.Fprintf(r.errOut, "applied %d of %d\n", r.done, r.total)
}

func outcomeWord(outcome registryv1.ApplyOutcome) string {
	switch outcome {
	case registryv1.ApplyOutcome_APPLY_OUTCOME_CREATED:
		return "created"
	case registryv1.ApplyOutcome_APPLY_OUTCOME_CONFIGURED:
		return "configured"
	default:
		return "unchanged"
	}
}
