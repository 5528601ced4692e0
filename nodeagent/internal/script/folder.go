package script

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"portolan.dev/services/probe"
)

// ErrRefused is the error of a script that the agent does not run. It stays until the pod or the
// folder is changed.
var ErrRefused = errors.New("the node agent does not run the script")

// Folder is a folder of scripts. The zero value has none.
type Folder struct {
	dir  string
	user *user // nil: the agent's own
}

// Open returns the folder of scripts at path. The scripts run as the user with a name or UID:GID if the agent
// is root, and otherwise as the agent's user. An empty path means that there are no scripts. Each check
// examines the folder, so it may be created later.
func Open(path, userName string) (*Folder, error) {
	if path == "" {
		return &Folder{}, nil
	}
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("check-dir: %q is no absolute path", path)
	}
	u, err := lookup(userName)
	if err != nil {
		return nil, fmt.Errorf("check-user: %w", err)
	}
	return &Folder{dir: path, user: u}, nil
}

// find returns the path of a script without symbolic links.
func (f *Folder) find(name string) (string, error) {
	if f.dir == "" {
		return "", fmt.Errorf("%w %q: the agent has no folder of scripts (-check-dir)", ErrRefused, name)
	}
	if err := probe.CheckScriptName(name); err != nil {
		return "", fmt.Errorf("%w %q: %w", ErrRefused, name, err)
	}
	dir, err := trustedFolder(f.dir)
	if err != nil {
		return "", fmt.Errorf("%w %q: %w", ErrRefused, name, err)
	}
	path, err := filepath.EvalSymlinks(filepath.Join(dir, name))
	if err == nil {
		err = trustedScript(dir, path)
	}
	if err != nil {
		return "", fmt.Errorf("%w %q: %w", ErrRefused, name, err)
	}
	return path, nil
}

// trustedFolder returns the path of a folder without symbolic links. It returns an error if an untrusted user
// could change or replace the folder.
func trustedFolder(path string) (string, error) {
	dir, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	for at := dir; ; at = filepath.Dir(at) {
		info, err := os.Lstat(at)
		if err != nil {
			return "", err
		}
		// Entries of a folder with the sticky bit, such as /tmp, can be replaced by their owners only.
		sticky := at != dir && info.Mode()&fs.ModeSticky != 0
		if err := trusted(at, info, sticky); err != nil {
			return "", err
		}
		if at == filepath.Dir(at) {
			return dir, nil
		}
	}
}

// trustedScript returns an error unless path, which has no symbolic links, is a script directly in the folder
// that only its trusted owner can change.
func trustedScript(dir, path string) error {
	if filepath.Dir(path) != dir {
		return fmt.Errorf("it is a link out of the folder %s", dir)
	}
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return fmt.Errorf("%s is no executable file", path)
	}
	return trusted(path, info, false)
}

// trusted returns an error if a file belongs to an untrusted user, or an untrusted user can write to it.
// Trusted are root and the agent's user.
func trusted(path string, info fs.FileInfo, sticky bool) error {
	owner, ok := ownerOf(info)
	if agent := os.Geteuid(); !ok || owner != 0 && owner != agent {
		return fmt.Errorf("%s belongs to user %d: make root its owner", path, owner)
	}
	if info.Mode()&0o022 != 0 && !sticky {
		return fmt.Errorf("%s can be written by others than its owner: chmod go-w %[1]s", path)
	}
	return nil
}
