//go:build unix

package dev

import (
	"fmt"
	"os"
	"syscall"
)

// othersWrite are the permissions by which other users can change a folder.
const othersWrite = 0o022

// checkFolder returns an error unless only the user can change the data directory. Otherwise another user
// could replace the token and the database. A symbolic link could lead dev into a folder of the user that
// was never meant for it.
func checkFolder(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	owner, _ := info.Sys().(*syscall.Stat_t)
	switch mode := info.Mode(); {
	case mode&os.ModeSymlink != 0:
		return fmt.Errorf("data directory %s is a symbolic link; give --data-dir the folder itself", path)
	case !mode.IsDir():
		return fmt.Errorf("data directory %s is no folder; give --data-dir another path", path)
	case int(owner.Uid) != os.Geteuid():
		return fmt.Errorf("data directory %s belongs to another user (%d); give --data-dir a folder of your own", path, owner.Uid)
	case mode.Perm()&othersWrite != 0:
		return fmt.Errorf("data directory %s can be written to by other users (mode %03o); chmod go-w %s", path, mode.Perm(), path)
	}
	return nil
}
