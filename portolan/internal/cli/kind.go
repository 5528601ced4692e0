package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"portolan.dev/services/client"
	"portolan.dev/services/kinds"
	"portolan.dev/services/object"
)

// namespaceFlags select the namespace of a command.
type namespaceFlags struct {
	namespace string
	all       bool
}

func (f *namespaceFlags) register(command *cobra.Command, withAll bool) {
	command.Flags().StringVarP(&f.namespace, "namespace", "n", object.DefaultNamespace, "namespace")
	if withAll {
		command.Flags().BoolVarP(&f.all, "all-namespaces", "A", false, "all namespaces")
	}
}

// objectRef is the kind and name in "KIND", "KIND NAME" or "KIND/NAME".
type objectRef struct {
	kind *kinds.Kind
	name string // empty: all objects of the kind
}

func parseTarget(args []string) (objectRef, error) {
	kindName, name, hasSlash := strings.Cut(args[0], "/")
	if len(args) > 1 {
		if hasSlash {
			return objectRef{}, usageError{fmt.Errorf("%q names an object already; %q is one name too many", args[0], args[1])}
		}
		name = args[1]
	}
	kind, ok := kinds.Named(kindName)
	if kindName == poolKind || kindName == poolKindPlural {
		return objectRef{}, usageError{errors.New("pools belong to the allocator; portolan get, describe and pool are for them")}
	}
	if !ok {
		return objectRef{}, usageError{fmt.Errorf("kind %q is not known; kinds are %s", kindName, kindNames())}
	}
	return objectRef{kind: kind, name: name}, nil
}

func kindNames() string {
	names := make([]string, 0, len(kinds.All))
	for _, kind := range kinds.All {
		names = append(names, strings.Join(append([]string{kind.Plural}, kind.Short...), " ("))
		if len(kind.Short) > 0 {
			names[len(names)-1] += ")"
		}
	}
	return strings.Join(names, ", ")
}

// namespaceOf returns the namespace of the request. It is empty for kinds without namespace.
func (f *namespaceFlags) namespaceOf(kind *kinds.Kind) string {
	if !kind.Namespaced || f.all {
		return ""
	}
	return f.namespace
}

// completeTarget completes kinds, then the names of existing objects.
func completeTarget(flags *connection, namespace *namespaceFlags) func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return func(command *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		switch len(args) {
		case 0:
			plurals := make([]string, 0, len(kinds.All))
			for _, kind := range kinds.All {
				plurals = append(plurals, kind.Plural)
			}
			return plurals, cobra.ShellCompDirectiveNoFileComp
		case 1:
			return objectNames(command, flags, namespace, args[0]), cobra.ShellCompDirectiveNoFileComp
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// completion is the type of cobra's functions that complete arguments.
type completion = func(command *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective)

// completeWithPools completes like the given function, and pools and their names too.
func completeWithPools(complete completion, allocator *allocatorFlags) completion {
	return func(command *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 1 {
			if _, ok, _ := poolTarget(args); ok {
				return allocator.names(command), cobra.ShellCompDirectiveNoFileComp
			}
		}
		completed, directive := complete(command, args, toComplete)
		if len(args) == 0 {
			completed = append(completed, poolKindPlural)
		}
		return completed, directive
	}
}

func objectNames(command *cobra.Command, flags *connection, namespace *namespaceFlags, kindName string) []string {
	kind, ok := kinds.Named(kindName)
	if !ok {
		return nil
	}
	registry, conn, err := flags.registry()
	if err != nil {
		return nil
	}
	defer func() { _ = conn.Close() }()
	found, _, err := registry.List(command.Context(), kind, client.Query{Namespace: namespace.namespaceOf(kind)})
	if err != nil {
		return nil
	}
	names := make([]string, 0, len(found))
	for _, o := range found {
		names = append(names, o.GetMetadata().GetName())
	}
	return names
}
