//go:build unix

package token

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// checkFile returns an error if another user than root can read or change an open file.
func checkFile(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	owner, _ := info.Sys().(*syscall.Stat_t)
	switch user := os.Geteuid(); {
	case !info.Mode().IsRegular():
		return errors.New("is no file")
	case user != 0 && int(owner.Uid) != user:
		return fmt.Errorf("belongs to another user (%d): only that user is served", owner.Uid)
	case info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("can be read by other users (mode %03o): start portolan dev again, which writes a new one", info.Mode().Perm())
	}
	return nil
}
