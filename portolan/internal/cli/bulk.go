package cli

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"portolan.dev/services/applyset"
	"portolan.dev/services/object"
)

// bulkOperation performs one operation on many objects. Objects of one kind are independent of each
// other, so they are sent concurrently, which lets the registry commit them together. Kinds follow
// each other in their order.
type bulkOperation struct {
	out, errOut io.Writer
	total       int
	verb        string // such as "applied"

	mu       sync.Mutex // guards the fields below and the output
	done     int
	failures []error
	reported time.Time
}

// newBulkOperation returns an operation on a number of objects. verb is such as "applied".
func newBulkOperation(command *cobra.Command, total int, verb string) *bulkOperation {
	return &bulkOperation{out: command.OutOrStdout(), errOut: command.ErrOrStderr(), total: total, verb: verb, reported: time.Now()}
}

// forEach calls do for every item, and joins its errors. do returns the function that prints its
// result.
func forEach[T any](b *bulkOperation, items []T, keyOf func(T) object.Key, do func(T) (report func(), err error)) error {
	applyset.EachKind(items, keyOf, func(items []T) {
		applyset.Concurrently(items, func(item T) {
			report, err := do(item)
			b.finish(report, err)
		})
	})
	return b.result()
}

// result joins the errors, and prints how many there are.
func (b *bulkOperation) result() error {
	if len(b.failures) > 0 && b.total > 1 {
		_, _ = fmt.Fprintf(b.errOut, "%d of %d objects could not be %s\n", len(b.failures), b.total, b.verb)
	}
	return errors.Join(b.failures...)
}

// finish counts an object, and prints the progress at most once a second.
func (b *bulkOperation) finish(report func(), err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.done++
	if err != nil {
		b.failures = append(b.failures, err)
		return
	}
	report()
	if b.total < 100 || isTerminal(b.out) && b.done == b.total || time.Since(b.reported) < time.Second {
		return
	}
	b.reported = time.Now()
	_, _ = fmt.Fprintf(b.errOut, "%s %d of %d\n", b.verb, b.done, b.total)
}
