package backends

import "errors"

// Side is a side of a Connection.
type Side int

// The sides.
const (
	NoSide Side = iota
	ClientSide
	BackendSide
)

// writeError is an error of the side to which bytes were passed on. Other errors of a copy are those of the side from
// which they came.
type writeError struct{ error }

// blame returns the side that has caused an error of a copy.
func blame(err error, from, to Side) Side {
	var write *writeError
	if errors.As(err, &write) {
		return to
	}
	return from
}
