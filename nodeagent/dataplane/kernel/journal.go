package kernel

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Journal remembers what is ours across restarts: values by key, in a file of
// one line per change that is rewritten when most of it is old. It is written
// before the kernel is changed, so that nothing of ours is ever unknown.
//
// It is about one network namespace of one boot: a journal of another one is
// void, since what it speaks of is gone.
//
// Lines are not synced to the disk: a crash that loses them loses the kernel's
// state too.
type Journal struct {
	path     string // empty: kept in memory only
	identity string
	file     *os.File
	live     map[string]json.RawMessage
	lines    int
}

// line is a line of the file.
type line struct {
	Identity string          `json:"identity,omitempty"` // of the first line
	Key      string          `json:"key,omitempty"`
	Value    json.RawMessage `json:"value,omitempty"` // none: the key is forgotten
}

// slack is how many lines more than twice the live ones a file may have.
const slack = 1000

// OpenJournal reads the journal at path, for the namespace of the calling
// thread. An empty path is a journal that ends with the process.
func OpenJournal(path string) (*Journal, error) {
	j := &Journal{path: path, live: map[string]json.RawMessage{}}
	if path == "" {
		return j, nil
	}
	var err error
	if j.identity, err = identity(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	if err := j.read(); err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	return j, j.rewrite()
}

// identity tells this boot and this namespace from all others.
func identity() (string, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("journal: %w", err)
	}
	ns, err := os.Readlink("/proc/thread-self/ns/net")
	if err != nil {
		return "", fmt.Errorf("journal: %w", err)
	}
	return strings.TrimSpace(string(boot)) + " " + ns, nil
}

// read replays the file. A last line that was cut short by a crash is ignored.
func (j *Journal) read() error {
	f, err := os.Open(j.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 64<<20)
	for first := true; lines.Scan(); first = false {
		var l line
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return nil //nolint:nilerr // see above
		}
		switch {
		case first && l.Identity != j.identity:
			return nil
		case first:
		case l.Value == nil:
			delete(j.live, l.Key)
		default:
			j.live[l.Key] = l.Value
		}
	}
	return lines.Err()
}

// rewrite writes what is live into a new file, and goes on with that.
func (j *Journal) rewrite() error {
	if err := j.replace(); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return nil
}

func (j *Journal) replace() error {
	f, err := os.CreateTemp(filepath.Dir(j.path), filepath.Base(j.path)+".*")
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	enc := json.NewEncoder(w)
	err = enc.Encode(line{Identity: j.identity})
	for key, value := range j.live {
		err = errors.Join(err, enc.Encode(line{Key: key, Value: value}))
	}
	err = errors.Join(err, w.Flush())
	if err == nil {
		err = os.Rename(f.Name(), j.path)
	}
	if err != nil {
		f.Close()
		os.Remove(f.Name()) //nolint:errcheck // it is useless, not harmful
		return err
	}
	if j.file != nil {
		j.file.Close()
	}
	j.file, j.lines = f, len(j.live)
	return nil
}

// Put notes values. Either all are in the file or an error tells that some may
// not be.
func (j *Journal) Put(values map[string]any) error {
	var lines []line
	for key, value := range values {
		text, err := json.Marshal(value)
		if err != nil {
			return fmt.Errorf("journal: %w", err)
		}
		if string(text) == string(j.live[key]) {
			continue
		}
		j.live[key] = text
		lines = append(lines, line{Key: key, Value: text})
	}
	return j.append(lines)
}

// Delete forgets a key.
func (j *Journal) Delete(key string) error {
	if _, ok := j.live[key]; !ok {
		return nil
	}
	delete(j.live, key)
	return j.append([]line{{Key: key}})
}

func (j *Journal) append(lines []line) error {
	if j.path == "" || len(lines) == 0 {
		return nil
	}
	j.lines += len(lines)
	if j.lines > 2*len(j.live)+slack {
		return j.rewrite()
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	for _, l := range lines {
		if err := enc.Encode(l); err != nil {
			return fmt.Errorf("journal: %w", err)
		}
	}
	if _, err := j.file.WriteString(b.String()); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return nil
}

// Each hands every value to fn.
func (j *Journal) Each(fn func(key string, value json.RawMessage) error) error {
	for key, value := range j.live {
		if err := fn(key, value); err != nil {
			return fmt.Errorf("journal: %s: %w", key, err)
		}
	}
	return nil
}

// Close frees the file and leaves its content.
func (j *Journal) Close() error {
	if j.file == nil {
		return nil
	}
	err := j.file.Close()
	j.file = nil
	return err
}

// Remove deletes the file, when nothing is ours any more.
func (j *Journal) Remove() error {
	if j.path == "" {
		return nil
	}
	return errors.Join(j.Close(), os.Remove(j.path))
}
