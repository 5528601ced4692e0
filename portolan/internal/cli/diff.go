package cli

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/applyset"
	"portolan.dev/services/client"
	"portolan.dev/services/kinds"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/manifest"
	"portolan.dev/services/object"
)

func newDiff(flags *connection) *cobra.Command {
	options := &applyOptions{dryRun: true}
	command := &cobra.Command{
		Use:   "diff -f FILE|DIR|-",
		Short: "Show what apply would change",
		Long: `diff prints a unified diff of YAML for every object of the manifests that apply would create or change: the stored object beside the applied
one. Of the data of Secrets it prints the sizes. With --prune -l SELECTOR it also prints the objects that apply would prune. It changes nothing.
The exit code is 0 without differences, 1 with some, and 2 when a manifest cannot be applied.`,
		Example: `  portolan diff -f service.yaml
  portolan diff -f manifests/ || portolan apply -f manifests/`,
		Args: arguments(cobra.NoArgs, "-f FILE"),
		RunE: flags.withRegistry(func(command *cobra.Command, _ []string, registry *client.Client) error {
			return diffManifests(command, registry, options)
		}),
	}
	options.register(command)
	return command
}

// diffManifests prints the differences of all objects. A failure has exit code 2, because 1 means
// that there are differences.
func diffManifests(command *cobra.Command, registry *client.Client, options *applyOptions) error {
	objects, err := options.objects(command)
	differences := 0
	var failures []error
	if err != nil {
		failures = append(failures, err)
	}
	for _, o := range applyset.InOrder(objects) {
		differs, err := diffObject(command.Context(), command, registry, o)
		if err != nil {
			failures = append(failures, fmt.Errorf("%s: %s", applyset.Name(o), apierr.Describe(err)))
		}
		if differs {
			differences++
		}
	}
	if len(failures) == 0 {
		pruned, err := diffStale(command, registry, options, objects)
		if err != nil {
			failures = append(failures, err)
		}
		differences += pruned
	}
	if len(failures) > 0 {
		_, _ = fmt.Fprintln(command.ErrOrStderr(), "error:", errors.Join(failures...))
		return exitError{code: 2}
	}
	if differences > 0 {
		return exitError{code: 1}
	}
	return nil
}

// diffStale prints the objects that apply would prune, and returns their number.
func diffStale(command *cobra.Command, registry *client.Client, options *applyOptions, objects []object.Object) (int, error) {
	set, err := options.set(objects)
	if err != nil || set == nil {
		return 0, err
	}
	stale, err := set.Stale(command.Context(), registry)
	for _, o := range stale {
		if _, err := printDiff(command.OutOrStdout(), o, nil); err != nil {
			return 0, err
		}
	}
	return len(stale), err
}

// diffObject prints the difference that applying an object would make, and reports whether there is
// one.
func diffObject(ctx context.Context, command *cobra.Command, registry *client.Client, o object.Object) (bool, error) {
	answer, err := registry.Apply(ctx, o, true)
	if err != nil {
		return false, err
	}
	for _, warning := range answer.GetWarnings() {
		_, _ = fmt.Fprintf(command.ErrOrStderr(), "warning: %s: %s\n", applyset.Name(o), warning)
	}
	after := object.Unwrap(answer.GetObject())
	var before object.Object
	if answer.GetOutcome() != registryv1.ApplyOutcome_APPLY_OUTCOME_CREATED {
		kind, _ := kinds.Named(object.KindOf(after))
		before, err = registry.Get(ctx, kind, after.GetMetadata().GetNamespace(), after.GetMetadata().GetName())
		if err != nil && status.Code(err) != codes.NotFound {
			return false, err
		}
	}
	return printDiff(command.OutOrStdout(), before, after)
}

// printDiff writes the difference between two versions of an object, of which one may be nil.
func printDiff(out io.Writer, before, after object.Object) (bool, error) {
	old, err := diffable(before, after, "stored")
	if err != nil {
		return false, err
	}
	merged, err := diffable(after, before, "applied")
	if err != nil {
		return false, err
	}
	named := after
	if named == nil {
		named = before
	}
	name := strings.ToLower(object.KindOf(named)) + "/" + object.KeyOf(named).Path()
	text := diff.Diff(name+" (stored)", old, name+" (applied)", merged)
	_, err = out.Write(text)
	return len(text) > 0, err
}

// diffable returns an object as YAML, without the fields that every write changes or that a new
// object gets, and without the data of a Secret. It is empty for nil. other is the version that the object
// is compared with, or nil. version is the word for the object itself: stored or applied.
func diffable(o, other object.Object, version string) ([]byte, error) {
	if o == nil {
		return nil, nil
	}
	o = object.Clone(o)
	meta := object.MetaOf(o)
	meta.Uid, meta.ResourceVersion, meta.Generation, meta.CreationTimestamp = "", 0, 0, nil
	masks := maskSecret(o, other, version)
	var text bytes.Buffer
	err := manifest.NewEncoder(&text, manifest.YAML).Encode(o)
	return []byte(strings.NewReplacer(masks...).Replace(text.String())), err
}

// maskSecret replaces each value of a Secret by its size. If the other version has another value, the word
// for this version is added, so that the difference is visible. maskSecret returns pairs of texts: the
// replacement in base64, as a manifest has it, and the replacement in words.
func maskSecret(o, other object.Object, version string) (masks []string) {
	secret, ok := o.(*corev1.Secret)
	if !ok {
		return nil
	}
	before, _ := other.(*corev1.Secret)
	for name, value := range secret.GetData() {
		mask := fmt.Sprintf("*** (%d bytes)", len(value))
		if had, ok := before.GetData()[name]; ok && !bytes.Equal(value, had) {
			mask = fmt.Sprintf("*** (%d bytes, %s)", len(value), version)
		}
		secret.Data[name] = []byte(mask)
		masks = append(masks, base64.StdEncoding.EncodeToString([]byte(mask)), mask)
	}
	return masks
}
