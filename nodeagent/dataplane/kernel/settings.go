package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Setting is a setting of the kernel that forwarding depends on.
type Setting struct {
	Name   string // as sysctl calls it, such as net.ipv4.ip_forward
	Want   string
	Before string // what was found; empty: the kernel does not have it
	Err    error  // it could not be set
}

// String says what became of the setting.
func (s Setting) String() string {
	switch {
	case s.Err != nil:
		return fmt.Sprintf("%s is %s, should be %s: %v", s.Name, s.Before, s.Want, s.Err)
	case s.Before == s.Want:
		return fmt.Sprintf("%s is %s", s.Name, s.Want)
	}
	return fmt.Sprintf("%s set to %s, was %s", s.Name, s.Want, s.Before)
}

// Forwarding is what every plane in the kernel needs.
var Forwarding = []Setting{
	{Name: "net.ipv4.ip_forward", Want: "1"},
	{Name: "net.ipv6.conf.all.forwarding", Want: "1"},
}

// Settle makes settings in the namespace of the calling thread and tells of
// each what it was. A setting that the kernel does not have is left out: older
// and newer kernels differ.
func Settle(settings []Setting) []Setting {
	var out []Setting
	for _, s := range settings {
		path := filepath.Join("/proc/sys", strings.ReplaceAll(s.Name, ".", "/"))
		found, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		s.Before, s.Err = strings.TrimSpace(string(found)), err
		if err == nil && s.Before != s.Want {
			s.Err = os.WriteFile(path, []byte(s.Want), 0)
		}
		out = append(out, s)
	}
	return out
}

// Version returns the kernel's version, such as 6, 1.
func Version() (major, minor int) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return 0, 0
	}
	return parseVersion(unix.ByteSliceToString(u.Release[:]))
}

func parseVersion(release string) (major, minor int) {
	first, rest, _ := strings.Cut(release, ".")
	if i := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' }); i >= 0 {
		rest = rest[:i]
	}
	major, _ = strconv.Atoi(first) // 0: unknown
	minor, _ = strconv.Atoi(rest)
	return major, minor
}
