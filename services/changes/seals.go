//go:build !race

package changes

import "portolan.dev/services/object"

// seals find objects that are changed although others share them. They cost a checksum of each
// object, so only programs that are built with the race detector have them.
type seals struct{}

func (seals) set(object.Object) {}

func (seals) check(object.Object) {}
