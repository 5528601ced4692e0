package packetfilter

import "fmt"

// Change is a transaction. An element that is added several times stays until it is removed as
// often.
type Change struct {
	Remove, Add []Element
}

// RefusedError holds the elements that the kernel refused. All other elements of the change are in
// force.
type RefusedError struct{ Elements map[Element]error }

// Error implements error.
func (e *RefusedError) Error() string {
	for _, err := range e.Elements {
		return fmt.Sprintf("packet filter: %d elements refused, such as for: %v", len(e.Elements), err)
	}
	return "packet filter: elements refused"
}
