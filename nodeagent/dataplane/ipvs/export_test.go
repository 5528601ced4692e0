package ipvs

import (
	_ "unsafe" // for go:linkname

	moby "github.com/moby/ipvs"
	"github.com/vishvananda/netlink"
)

// Timeouts reads the kernel's timeouts.
func Timeouts(namespace string) (moby.Config, error) {
	s, err := newSession(namespace)
	if err != nil {
		return moby.Config{}, err
	}
	defer s.close()
	return s.config()
}

// libraryFamily is the number of the kernel's IPVS, which the library looks up once in a process.
//
//go:linkname libraryFamily github.com/moby/ipvs.ipvsFamily
var libraryFamily int

// Reloaded gives the library the number that IPVS has since its module was loaded again, as if the
// process had started anew.
func Reloaded() error {
	family, err := netlink.GenlFamilyGet("IPVS")
	if err == nil {
		libraryFamily = int(family.ID)
	}
	return err
}
