package systemd

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// maxFileBytes is the size of the largest unit file that is read. It is also systemd's limit for one line.
const maxFileBytes = 1 << 20

// stamp identifies a version of a file.
type stamp struct {
	path     string
	size     int64
	modified time.Time
}

// stampOf returns the stamp of a file below root. If the file cannot be found, size and time are zero.
func stampOf(root, path string) stamp {
	s := stamp{path: path}
	if info, err := os.Stat(filepath.Join(root, path)); err == nil {
		s.size, s.modified = info.Size(), info.ModTime()
	}
	return s
}

// readUnitFile returns the text of a unit file below root. It returns "" for a file that does not exist or is
// not a regular file, because the fragment of a masked unit is /dev/null, and the file of a running unit may
// have been deleted.
func readUnitFile(root, path string) (string, error) {
	file := filepath.Join(root, path)
	info, err := os.Stat(file)
	switch {
	case os.IsNotExist(err), err == nil && !info.Mode().IsRegular():
		return "", nil
	case err != nil:
		return "", err
	}
	f, err := os.Open(file) // #nosec G304 -- the path is systemd's
	if err != nil {
		return "", err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err == nil && len(content) > maxFileBytes {
		err = fmt.Errorf("%s has more than %d bytes", path, maxFileBytes)
	}
	return string(content), err
}

// assignment is a line KEY=VALUE of a unit file.
type assignment struct{ section, key, value string }

// blanks are the characters around keys and values.
const blanks = " \t"

// lineEnds replaces other line ends that systemd accepts by a newline.
var lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\x00", "\n")

// assignments returns the assignments of a unit file in their order. It reads the file according to
// systemd.syntax(7): a line that ends in a backslash continues on the next line that is not a comment. Lines
// that systemd cannot read are ignored, because systemd reports them.
func assignments(content string) []assignment {
	var found []assignment
	section, begun := "", ""
	for _, line := range append(strings.Split(lineEnds.Replace(content), "\n"), "") {
		if start := strings.TrimLeft(line, blanks); strings.HasPrefix(start, "#") || strings.HasPrefix(start, ";") {
			continue
		}
		line = begun + line
		if begun = ""; continues(line) {
			begun = line[:len(line)-1] + " "
			continue
		}
		line = strings.Trim(line, blanks)
		if strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]") {
			section = line[1 : len(line)-1]
		} else if key, value, ok := strings.Cut(line, "="); ok {
			found = append(found, assignment{section, strings.Trim(key, blanks), strings.Trim(value, blanks)})
		}
	}
	return found
}

// continues reports whether a line ends in a backslash that is not escaped by another one.
func continues(line string) bool {
	return (len(line)-len(strings.TrimRight(line, `\`)))%2 == 1
}
