package bgp

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"net/netip"
	"os"

	"portolan.dev/nodeagent/machine"
)

// settings returns the settings of the speaker, apart from its first routes.
func (a *Advertiser) settings() (machine.SpeakerOptions, error) {
	c := &a.opts.Config
	o := machine.SpeakerOptions{
		AS: c.AS, Peers: a.peers, HoldTime: c.HoldTime, Restart: a.restart(), BFD: c.BFD, Hops: uint8(c.Hops), // #nosec G115 -- Validate has checked it
		RouterID: a.identifier(), Changed: a.sessionChanged, Log: a.opts.Log,
	}
	var err error
	if o.Communities, o.LargeCommunities, err = parseCommunities(c.Communities); err != nil {
		return o, err
	}
	if c.PasswordFile == "" {
		return o, nil
	}
	password, err := os.ReadFile(c.PasswordFile)
	if err != nil {
		return o, fmt.Errorf("bgp-password-file: %w", err)
	}
	o.Password = string(bytes.TrimSpace(password))
	if o.Password == "" || len(o.Password) > maxPassword {
		return o, fmt.Errorf("bgp-password-file: %s does not have a password of 1 to %d bytes", c.PasswordFile, maxPassword)
	}
	return o, nil
}

// maxPassword is the kernel's limit for the key of TCP MD5.
const maxPassword = 80

// identifier returns the router ID: the configured ID, the node's IPv4 address, or a hash of the node's name.
// The hash is the same after a restart, and two nodes most likely have different hashes.
func (a *Advertiser) identifier() netip.Addr {
	if id, err := netip.ParseAddr(a.opts.RouterID); err == nil {
		return id
	}
	if addr := a.opts.Address(); addr.Is4() {
		return addr
	}
	sum := fnv.New32a()
	sum.Write([]byte(a.opts.Node)) //nolint:errcheck // it never fails
	return netip.AddrFrom4([4]byte(sum.Sum(nil)))
}
