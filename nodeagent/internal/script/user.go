package script

import (
	"fmt"
	osuser "os/user"
	"strconv"
	"strings"
)

// user is an unprivileged user with its main group.
type user struct {
	uid, gid uint32
}

// lookup returns the user with a name, or with UID:GID, which needs no entry in the list of users. It
// returns nil if the agent is not root, because scripts run as the agent's own user then.
func lookup(name string) (*user, error) {
	if !isRoot() {
		return nil, nil
	}
	uidText, gidText, numbers := strings.Cut(name, ":")
	if !numbers {
		found, err := osuser.Lookup(name)
		if err != nil {
			return nil, fmt.Errorf("%w: create the user, or write UID:GID", err)
		}
		uidText, gidText = found.Uid, found.Gid
	}
	uid, err := strconv.ParseUint(uidText, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("%q is no user: write a name or UID:GID", name)
	}
	gid, err := strconv.ParseUint(gidText, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("%q is no user: write a name or UID:GID", name)
	}
	if uid == 0 || gid == 0 {
		return nil, fmt.Errorf("%q is root or of root's group: scripts run without privileges, name another user", name)
	}
	return &user{uid: uint32(uid), gid: uint32(gid)}, nil
}
