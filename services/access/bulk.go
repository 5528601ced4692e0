package access

import (
	"context"
	"sync"

	"portolan.dev/services/kinds"
	"portolan.dev/services/kit/identity"
)

// methods is the table that decides about the operations of bulk calls.
var methods = sync.OnceValue(Methods)

// CheckOperation returns an error unless the caller of a bulk call may call the method that makes
// the same write as one of the operations. The error is the one of that method. The operation must
// have such a method.
func CheckOperation(ctx context.Context, operation kinds.Operation) error {
	if _, err := identity.Caller(ctx); err != nil {
		return nil //nolint:nilerr // without TLS there are no roles
	}
	return methods().Authorize(ctx, operation.Method())
}
