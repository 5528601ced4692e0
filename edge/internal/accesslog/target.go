package accesslog

import (
	"fmt"
	"maps"
	"path"
	"strings"
	"time"
)

// Target is the service of a log, with its settings.
type Target struct {
	Namespace, Service string
	// Directory and Prefix are the folders of the files below the base directory. Either may be empty
	// or have several parts, with slashes between them.
	Directory, Prefix string
	// Interval is the length of the time that one file covers. Intervals are counted from midnight UTC.
	Interval time.Duration
	Format   Format
	// Tags are added to lines of JSON.
	Tags map[string]string
}

// Equal reports whether the two targets have the same files and lines.
func (t Target) Equal(other Target) bool {
	return t.Namespace == other.Namespace && t.Service == other.Service && t.Directory == other.Directory && t.Prefix == other.Prefix &&
		t.Interval == other.Interval && t.Format == other.Format && maps.Equal(t.Tags, other.Tags)
}

// balancer is the name of the load balancer in the lines.
func (t *Target) balancer() string { return t.Namespace + "/" + t.Service }

// check returns an error if the files of the target have no valid names.
func (t *Target) check() error {
	if t.Interval < time.Minute {
		return fmt.Errorf("the interval %s of the access log is shorter than a minute", t.Interval)
	}
	for what, folder := range map[string]string{"directory": t.Directory, "prefix": t.Prefix} {
		if err := checkFolder(folder); err != nil {
			return fmt.Errorf("the %s %q of the access log: %w", what, folder, err)
		}
	}
	return nil
}

// checkFolder returns an error unless the text is empty or the name of a folder below another one. All
// parts must be printable ASCII, because they are shown in terminals and tools.
func checkFolder(folder string) error {
	const maxFolder = 512
	if len(folder) > maxFolder {
		return fmt.Errorf("it is longer than %d bytes", maxFolder)
	}
	if folder == "" {
		return nil
	}
	for part := range strings.SplitSeq(folder, "/") {
		if part == "" || part == "." || part == ".." {
			return fmt.Errorf("a part of it is %q", part)
		}
	}
	for _, c := range []byte(folder) {
		if c <= ' ' || c >= 0x7f || c == '\\' {
			return fmt.Errorf("it contains the character %q", c)
		}
	}
	return nil
}

func (t *Target) folder() string { return path.Join(t.Directory, t.Prefix) }

// The ends of the names of files.
const (
	finalEnd = ".log"
	partEnd  = finalEnd + ".part"
)

// stem returns the name of a file of the service on a node, without its end.
func (t *Target) stem(node string, start time.Time) string {
	name := strings.Join([]string{t.Namespace, t.Service, node, start.UTC().Format("20060102T1504Z")}, "_")
	return path.Join(t.folder(), name)
}

// nodeOf returns the node in the name of an unfinished log, or "" for another file.
func nodeOf(name string) string {
	stem, begun := strings.CutSuffix(path.Base(name), partEnd)
	if parts := strings.Split(stem, "_"); begun && len(parts) == 4 {
		return parts[2]
	}
	return ""
}
