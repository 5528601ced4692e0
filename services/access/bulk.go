package access

import (
	"context"
	"sync"

	"portolan.dev/services/kinds"
	"portolan.dev/services/kit/identity"
)

// methods returns the table of all methods, made once.
var methods = sync.OnceValue(Methods)

// CheckOperation returns an error unless the caller of a bulk call may call the method that would
// make the operation's write alone. It returns the error that a call of that method would get. The
// operation must have such a method.
func CheckOperation(ctx context.Context, operation kinds.Operation) error {
	if _, err := identity.Caller(ctx); err != nil {
		return nil //nolint:nilerr // without TLS there are no roles
	}
	return methods().Authorize(ctx, operation.Method())
}
