package changes

import (
	"fmt"

	"github.com/nats-io/nats.go"
)

// Oldest version of the NATS server that has what the stream needs: metadata of streams, and a first
// sequence that the creator chooses. An older server ignores both without an error.
const (
	oldestMajor = 2
	oldestMinor = 10
)

// CheckServer returns an error with the remedy if the NATS server of a connection is too old for the change
// stream. It returns nil if the connection is not established.
func CheckServer(nc *nats.Conn) error {
	version := nc.ConnectedServerVersion()
	var major, minor int
	if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err != nil {
		return nil //nolint:nilerr // not connected, or a development version, which has no number
	}
	if major > oldestMajor || major == oldestMajor && minor >= oldestMinor {
		return nil
	}
	return &refusedError{fmt.Sprintf("the NATS server at %s is of version %s, and the change stream needs %d.%d or later (Debian 12 has 2.9): install a later nats-server from https://github.com/nats-io/nats-server/releases",
		nc.ConnectedUrlRedacted(), version, oldestMajor, oldestMinor)}
}

// refusedError is the reason for which a relay leaves the stream alone until an operator has acted.
type refusedError struct{ why string }

// Error returns the reason and the remedy.
func (e *refusedError) Error() string { return e.why }
