package nodestatus

import (
	"strings"
	"syscall"
)

// kernelVersion returns the version of the kernel, or "" if it is unknown.
func kernelVersion() string {
	var u syscall.Utsname
	if err := syscall.Uname(&u); err != nil {
		return ""
	}
	var b strings.Builder
	for _, c := range u.Release {
		if c == 0 {
			break
		}
		b.WriteByte(byte(c))
	}
	return b.String()
}
