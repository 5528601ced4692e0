package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/portolan/internal/balancer"
	"portolan.dev/portolan/internal/printer"
	"portolan.dev/services/client"
	"portolan.dev/services/manifest"
	"portolan.dev/services/object"
)

// objectPrinter prints the objects of get, and then their changes, in the requested form.
type objectPrinter struct {
	out, errOut io.Writer
	target      objectRef
	options     *getOptions
	manifests   *manifest.Encoder
	pools       balancer.Pools // for the wide form of services
}

func newObjectPrinter(command *cobra.Command, what objectRef, options *getOptions) *objectPrinter {
	out := command.OutOrStdout()
	return &objectPrinter{out: out, errOut: command.ErrOrStderr(), target: what, options: options, manifests: manifest.NewEncoder(out, manifest.Format(options.output))}
}

func (s *objectPrinter) show(found []object.Object) error {
	switch s.options.output {
	case "yaml", "json":
		return s.encode(found)
	case "name":
		return s.names(found...)
	}
	if len(found) == 0 && !s.options.watch {
		where := ""
		if namespace := s.options.namespaceOf(s.target.kind); namespace != "" {
			where = " in namespace " + namespace
		}
		_, _ = fmt.Fprintf(s.errOut, "No %s found%s.\n", s.target.kind.Plural, where)
		return nil
	}
	table := printer.NewTable(s.out, s.target.kind, s.table())
	for _, o := range found {
		table.Row(o)
	}
	return table.Flush()
}

// encode writes a List, also for one object or none, so that scripts need not count. A named object
// and watched objects are separate documents.
func (s *objectPrinter) encode(found []object.Object) error {
	if s.target.name == "" && !s.options.watch {
		return s.manifests.EncodeList(found)
	}
	for _, o := range found {
		if err := s.manifests.Encode(o); err != nil {
			return err
		}
	}
	return nil
}

func (s *objectPrinter) names(found ...object.Object) error {
	for _, o := range found {
		if _, err := fmt.Fprintf(s.out, "%s/%s\n", strings.ToLower(s.target.kind.Name), o.GetMetadata().GetName()); err != nil {
			return err
		}
	}
	return nil
}

func (s *objectPrinter) table() printer.Options {
	return printer.Options{Wide: s.options.output == "wide", WithNamespace: s.options.all, Now: time.Now(), Pools: s.pools}
}

func (s *objectPrinter) change(change client.Change) error {
	switch s.options.output {
	case "yaml", "json":
		return s.manifests.Encode(change.Object)
	case "name":
		return s.names(change.Object)
	}
	options := s.table()
	options.NoHeader = true
	table := printer.NewTable(s.out, s.target.kind, options)
	if change.Type == registryv1.ChangeType_CHANGE_TYPE_DELETE {
		table.Row(change.Object, "deleted")
	} else {
		table.Row(change.Object)
	}
	return table.Flush()
}
