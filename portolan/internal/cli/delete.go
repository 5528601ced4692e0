package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"portolan.dev/services/client"
	"portolan.dev/services/kinds"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
)

// deleteOptions are the flags of delete.
type deleteOptions struct {
	namespaceFlags
	files         []string
	labels        string
	fields        string
	everything    bool
	grace         int64 // seconds; negative: the pod's own grace period
	dryRun        bool
	ignoreMissing bool
	certs         string // folder of certificates, which may have the authority
}

func newDelete(flags *connection) *cobra.Command {
	options := &deleteOptions{}
	command := &cobra.Command{
		Use:   "delete KIND NAME... | KIND -l SELECTOR | KIND --all | -f FILE",
		Short: "Delete objects",
		Long: `delete removes the objects that are named, selected, or described by manifests. A running pod is terminating for its grace period first: it
serves only where no other pod of its service is ready, and "portolan run" stops its program. --grace-period 0 removes it at once.
Deleting a node revokes the certificates of its agent.`,
		Example: `  portolan delete service web
  portolan delete svc web api -n shop
  portolan delete pods -l app=web --dry-run
  portolan delete pods --all --grace-period 5
  portolan delete -f service.yaml`,
		ValidArgsFunction: completeTarget(flags, &options.namespaceFlags),
		RunE: flags.withRegistry(func(command *cobra.Command, args []string, registry *client.Client) error {
			deletions, err := options.deletions(command, args, registry)
			if err != nil {
				return err
			}
			options.certs = folderOf(flags)
			return deleteAll(command.Context(), command, registry, deletions, options)
		}),
	}
	options.register(command, true)
	set := command.Flags()
	set.StringArrayVarP(&options.files, "filename", "f", nil, "delete the objects of this file, folder or - for standard input")
	set.StringVarP(&options.labels, "selector", "l", "", "delete the objects with these labels, such as app=web,tier!=test")
	set.StringVar(&options.fields, "field-selector", "", "delete the objects with these fields, such as spec.type=NodePort")
	set.BoolVar(&options.everything, "all", false, "delete every object of the kind, in the namespace unless -A is given")
	set.Int64Var(&options.grace, "grace-period", -1, "seconds that a running pod has to end; 0: none; negative: the pod's own grace period")
	set.BoolVar(&options.dryRun, "dry-run", false, "check, delete nothing")
	set.BoolVar(&options.ignoreMissing, "ignore-not-found", false, "an object that is not there is no error")
	return command
}

// selects reports whether the objects are selected by their properties, not by name.
func (o *deleteOptions) selects() bool { return o.everything || o.labels != "" || o.fields != "" }

// deletions returns the deletions to make. The objects of manifests come in reverse order, so that
// objects that others refer to are deleted last.
func (o *deleteOptions) deletions(command *cobra.Command, args []string, registry *client.Client) ([]client.Deletion, error) {
	if err := o.check(args); err != nil {
		return nil, err
	}
	if len(o.files) > 0 {
		return o.ofFiles(command)
	}
	first, err := parseTarget(args[:min(2, len(args))])
	if err != nil {
		return nil, err
	}
	if o.grace >= 0 && first.kind.Name != "Pod" {
		return nil, usageError{fmt.Errorf("--grace-period is for pods; %s go at once", first.kind.Plural)}
	}
	if o.selects() {
		return o.ofCollection(command, first.kind, registry)
	}
	names := append([]string{first.name}, args[min(2, len(args)):]...)
	deletions := make([]client.Deletion, 0, len(names))
	for _, name := range names {
		deletions = append(deletions, o.deletion(object.Key{Kind: first.kind.Name, Namespace: o.namespaceOf(first.kind), Name: name}))
	}
	return deletions, nil
}

// check refuses combinations of names, files and selectors that contradict each other.
func (o *deleteOptions) check(args []string) error {
	named := len(args) > 1 || len(args) == 1 && strings.Contains(args[0], "/")
	var wrong string
	switch {
	case len(o.files) > 0 && len(args) > 0:
		wrong = "name objects, or files with -f, not both"
	case len(o.files) > 0 && o.selects():
		wrong = "-f names the objects; leave out -l, --field-selector and --all"
	case named && o.selects():
		wrong = "name objects, or select them with -l, --field-selector or --all, not both"
	case o.everything && (o.labels != "" || o.fields != ""):
		wrong = "--all deletes every object; leave it out to delete those that a selector picks"
	case o.all && (named || len(o.files) > 0):
		wrong = "a name belongs to one namespace; leave out -A or the name"
	case len(o.files) == 0 && !named && !o.selects():
		wrong = "say what to delete: KIND NAME, KIND -l SELECTOR, KIND --all, or -f FILE"
	case len(o.files) == 0 && len(args) == 0:
		wrong = "say of which kind: KIND -l SELECTOR, or KIND --all"
	default:
		return nil
	}
	return usageError{errors.New(wrong)}
}

// deletion returns the deletion of one object.
func (o *deleteOptions) deletion(key object.Key) client.Deletion {
	d := client.Deletion{Key: key, DryRun: o.dryRun}
	if o.grace >= 0 {
		d.Grace = &o.grace
	}
	return d
}

func (o *deleteOptions) ofFiles(command *cobra.Command) ([]client.Deletion, error) {
	documents, err := readManifests(command.InOrStdin(), o.files)
	if err != nil {
		return nil, err
	}
	objects, err := objectsOf(command.ErrOrStderr(), documents, o.namespace, false)
	if err != nil {
		return nil, err
	}
	deletions := make([]client.Deletion, 0, len(objects))
	for _, found := range slices.Backward(objects) {
		deletions = append(deletions, o.deletion(object.KeyOf(found)))
	}
	return deletions, nil
}

// ofCollection lists the selected objects. Each is deleted under its UID, so that an object that is
// recreated in the meantime stays.
func (o *deleteOptions) ofCollection(command *cobra.Command, kind *kinds.Kind, registry *client.Client) ([]client.Deletion, error) {
	query := client.Query{Namespace: o.namespaceOf(kind), Labels: o.labels, Fields: o.fields}
	found, _, err := registry.List(command.Context(), kind, query)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		_, _ = fmt.Fprintf(command.ErrOrStderr(), "No %s found.\n", kind.Plural)
	}
	deletions := make([]client.Deletion, 0, len(found))
	for _, one := range found {
		d := o.deletion(object.KeyOf(one))
		d.UID = one.GetMetadata().GetUid()
		deletions = append(deletions, d)
	}
	return deletions, nil
}

func deleteAll(ctx context.Context, command *cobra.Command, registry *client.Client, deletions []client.Deletion, options *deleteOptions) error {
	run := newBulkOperation(command, len(deletions), "deleted")
	keyOf := func(d client.Deletion) object.Key { return d.Key }
	return forEach(run, deletions, keyOf, func(d client.Deletion) (func(), error) {
		label := strings.ToLower(d.Key.Kind) + "/" + d.Key.Name
		if options.all && d.Key.Namespace != "" {
			label += " in " + d.Key.Namespace
		}
		last, err := registry.Delete(ctx, d)
		switch code := status.Code(err); {
		case code == codes.NotFound && (options.ignoreMissing || d.UID != ""), code == codes.Aborted && d.UID != "":
			return func() {}, nil // it is deleted, or another object by now
		case err != nil:
			return nil, fmt.Errorf("%s: %s", label, apierr.Describe(err))
		}
		revoked, err := revokedDaemons(ctx, registry, d)
		if err != nil {
			return nil, fmt.Errorf("%s: deleted, but %s", label, apierr.Describe(err))
		}
		return func() {
			_, _ = fmt.Fprintf(run.out, "%s %s\n", label, deletedWord(last, options.dryRun))
			recordDeletedDaemons(run.errOut, options.certs, revoked)
		}, nil
	})
}

func deletedWord(last object.Object, dryRun bool) string {
	meta := last.GetMetadata()
	switch {
	case dryRun:
		return "would be deleted (dry run)"
	case len(meta.GetFinalizers()) > 0:
		return "is being deleted; waiting for " + strings.Join(meta.GetFinalizers(), ", ")
	case meta.GetDeletionTimestamp() != nil && meta.GetDeletionGracePeriodSeconds() > 0:
		return fmt.Sprintf("is terminating; it is removed in %s at the latest", time.Duration(meta.GetDeletionGracePeriodSeconds())*time.Second)
	default:
		return "deleted"
	}
}
