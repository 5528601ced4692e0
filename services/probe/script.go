package probe

import (
	"errors"
	"strings"
)

// maxScriptName is the longest name of a file on Linux, in bytes.
const maxScriptName = 255

// ErrScriptName is the error of a command that a node agent refuses by its name.
var ErrScriptName = errors.New("an exec check names a script in the node agent's folder (-check-dir) by a plain file name, such as check-db; it is no path and begins with no dot")

// CheckScriptName returns an error unless name is a plain file name, so that it cannot lead out of
// a folder.
func CheckScriptName(name string) error {
	if name == "" || len(name) > maxScriptName || name[0] == '.' || strings.ContainsAny(name, "/\\\x00") {
		return ErrScriptName
	}
	return nil
}
