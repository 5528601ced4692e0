//go:build !linux

package workload

import (
	"errors"
	"io"
)

// mountNamespaces reports whether this system has them.
const mountNamespaces = false

// ExecWithResolver returns an error, because only Linux has mount namespaces. The runner does not
// use it on other systems.
func ExecWithResolver(string, []string, io.Writer) error {
	return errors.New("a private resolv.conf needs a mount namespace, which only Linux has")
}
