package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// unit has the fields of a daemon's systemd unit that its package needs.
type unit struct {
	daemon, description, user string
}

// deployed returns the path of a file in the folder deploy of the sources.
func (r *release) deployed(parts ...string) string {
	return filepath.Join(append([]string{r.root, "deploy"}, parts...)...)
}

// readUnit reads a daemon's unit. Description and User are required.
func (r *release) readUnit(daemon string) (unit, error) {
	name := r.deployed("systemd", packageOf(daemon)+".service")
	text, err := os.ReadFile(name)
	if err != nil {
		return unit{}, err
	}
	u := unit{daemon: daemon}
	for line := range strings.Lines(string(text)) {
		switch key, value, _ := strings.Cut(strings.TrimSpace(line), "="); key {
		case "Description":
			u.description = value
		case "User":
			u.user = value
		}
	}
	if u.description == "" || u.user == "" {
		return unit{}, fmt.Errorf("%s: Description and User are required: the package is made by them", name)
	}
	return u, nil
}

// sysusers returns the file of sysusers.d for the user of the unit. If a user with the name of User= exists,
// systemd uses it for DynamicUser=. So the owner of the daemon's files keeps its number, and has a name while
// the daemon does not run. Colons in the description are replaced, because they separate the fields of
// /etc/passwd.
func (u unit) sysusers() string {
	description := strings.ReplaceAll(u.description, ":", ",")
	return fmt.Sprintf("# The user of the unit %s.service.\nu %s - %q\n", packageOf(u.daemon), u.user, description)
}
