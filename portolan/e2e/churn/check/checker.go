package check

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"portolan.dev/portolan/e2e/churn/model"
	"portolan.dev/services/object"
)

// Checker compares a part of an installation with a world.
type Checker interface {
	// Name returns the name of the part.
	Name() string
	// Check returns the differences. It returns an error if it cannot compare.
	Check(ctx context.Context, want *model.World) ([]Finding, error)
}

// Finding is a difference.
type Finding struct {
	Check   string
	Object  object.Key // may be empty
	Problem string
	// Final is true if the difference is a fault that waiting does not repair.
	Final bool
}

// String returns the finding on one line.
func (f Finding) String() string { return fmt.Sprintf("%s: %s: %s", f.Check, f.Object, f.Problem) }

// pause is the time between two checks.
const pause = 50 * time.Millisecond

// RunAll runs checkers, one after the other, each until it finds nothing. When the patience for one
// ends, or its findings are final, the others check once more, so that causes and effects are
// reported together.
func RunAll(ctx context.Context, want *model.World, patience time.Duration, checkers ...Checker) ([]Finding, error) {
	var all []Finding
	for _, c := range checkers {
		findings, err := awaitNone(ctx, want, patience, c)
		if err != nil {
			return all, err
		}
		if len(findings) > 0 {
			patience = 0
		}
		all = append(all, findings...)
	}
	return all, nil
}

func awaitNone(ctx context.Context, want *model.World, patience time.Duration, c Checker) ([]Finding, error) {
	deadline := time.Now().Add(patience)
	for {
		findings, err := c.Check(ctx, want)
		final := slices.ContainsFunc(findings, func(f Finding) bool { return f.Final })
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err == nil && len(findings) == 0:
			return nil, nil
		case final || time.Now().After(deadline):
			if err != nil {
				err = fmt.Errorf("%s: %w", c.Name(), err)
			}
			return findings, err
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// compare returns the wanted lines that are missing, and the lines that are not wanted.
func compare(check string, want, got model.Lines, final bool) []Finding {
	var findings []Finding
	keys := maps.Clone(want)
	maps.Copy(keys, got)
	for _, key := range slices.SortedFunc(maps.Keys(keys), object.Compare) {
		missing, surplus := without(want[key], got[key]), without(got[key], want[key])
		if len(missing)+len(surplus) == 0 {
			continue
		}
		var problem []string
		for _, line := range missing {
			problem = append(problem, "\n\tmissing:    "+line)
		}
		for _, line := range surplus {
			problem = append(problem, "\n\tunexpected: "+line)
		}
		findings = append(findings, Finding{Check: check, Object: key, Problem: strings.Join(problem, ""), Final: final})
	}
	return findings
}

// without returns the lines of a that are not in b, with regard to their numbers.
func without(a, b []string) []string {
	count := map[string]int{}
	for _, line := range b {
		count[line]++
	}
	var left []string
	for _, line := range a {
		if count[line] == 0 {
			left = append(left, line)
			continue
		}
		count[line]--
	}
	slices.Sort(left)
	return left
}

// serviceKey returns the key of a service from NAMESPACE/NAME.
func serviceKey(path string) object.Key {
	namespace, name, _ := strings.Cut(path, "/")
	return object.Key{Kind: "Service", Namespace: namespace, Name: name}
}
