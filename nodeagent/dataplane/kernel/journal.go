package kernel

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"portolan.dev/nodeagent/dataplane"
)

// Journal records the plane's state across restarts: values by key, in a file. Changes are appended
// to the file, and it is rewritten when most of its entries are obsolete. It is written before the
// kernel is changed, so that the kernel never has state of the plane that the journal lacks.
//
// A journal belongs to one network namespace of one boot. A journal of another one is ignored,
// because its state no longer exists.
//
// A journal that is missing or damaged is not complete: the kernel may have state that it lacks. The file
// says so until SetComplete, because the next process would otherwise take it for complete.
//
// Entries are not synced to the disk: a crash of the machine that loses them loses the kernel's
// state too.
type Journal struct {
	path     string // empty: in memory only
	identity string
	file     *os.File
	complete bool
	live     map[string]string
	pending  []byte // entries that are not written yet
	entries  int    // in the file, including the pending ones
}

const (
	// slack is the number of entries that a file may have in addition to twice the live ones.
	slack = 1000
	// maxEntry is the longest entry that is accepted from the file, in bytes.
	maxEntry = 16 << 20
	// entryHead is the size of an entry's length and checksum, 4 bytes each.
	entryHead = 8
)

// OpenJournal reads the journal at path, for the namespace of the calling thread. If the path is
// empty, the journal ends with the process.
func OpenJournal(path string) (*Journal, error) {
	j := &Journal{path: path, live: map[string]string{}}
	if path == "" {
		j.complete = true
		return j, nil
	}
	var err error
	if j.identity, err = identity(); err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	if err := j.read(); err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	return j, j.rewrite()
}

// identity identifies this boot and this namespace. The namespace is identified by its inode
// number. The kernel may reuse that number later, but not while the namespace exists.
func identity() (string, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", err
	}
	var ns unix.Stat_t
	if err := unix.Stat("/proc/thread-self/ns/net", &ns); err != nil {
		return "", err
	}
	return fmt.Sprintf("portolan 2 %s net:%d", strings.TrimSpace(string(boot)), ns.Ino), nil
}

// incompleteSuffix follows the identity in the file of a journal that is not complete.
const incompleteSuffix = " incomplete"

// read replays the file. It stops at an entry that a crash has truncated.
func (j *Journal) read() error {
	f, err := os.Open(j.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, 1<<20)
	marked := true
	for first := true; ; first = false {
		entry, err := readEntry(in)
		switch {
		case !first && errors.Is(err, io.EOF):
			j.complete = !marked
			return nil
		case errors.Is(err, errDamaged), errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case first:
			text, isMarked := strings.CutSuffix(string(entry), incompleteSuffix)
			if marked = isMarked; text != j.identity {
				return nil
			}
			continue
		}
		key, value, there, ok := splitEntry(entry)
		switch {
		case !ok:
			return nil
		case there:
			j.live[key] = value
		default:
			delete(j.live, key)
		}
	}
}

var errDamaged = errors.New("the rest of the journal is damaged")

func readEntry(in io.Reader) ([]byte, error) {
	var head [entryHead]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return nil, cutShort(err)
	}
	size := binary.BigEndian.Uint32(head[:])
	if size > maxEntry {
		return nil, errDamaged
	}
	entry := make([]byte, size)
	if _, err := io.ReadFull(in, entry); err != nil {
		return nil, cutShort(err)
	}
	if crc32.ChecksumIEEE(entry) != binary.BigEndian.Uint32(head[4:]) {
		return nil, errDamaged
	}
	return entry, nil
}

func cutShort(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return errDamaged
	}
	return err
}

// splitEntry decodes an entry: the length of its key, the key, and, unless the key is deleted, 1
// and the value.
func splitEntry(entry []byte) (key, value string, there, ok bool) {
	size, n := binary.Uvarint(entry)
	if n <= 0 || size > uint64(len(entry)-n) {
		return "", "", false, false
	}
	rest := entry[n:]
	key, rest = string(rest[:size]), rest[size:]
	if len(rest) == 0 {
		return key, "", false, true
	}
	return key, string(rest[1:]), true, rest[0] == 1
}

func appendEntry(b []byte, key, value string, there bool) []byte {
	b, start := openEntry(b)
	b = binary.AppendUvarint(b, uint64(len(key)))
	b = append(b, key...)
	if there {
		b = append(append(b, 1), value...)
	}
	return closeEntry(b, start)
}

func openEntry(b []byte) ([]byte, int) {
	return append(b, make([]byte, entryHead)...), len(b) + entryHead
}

func closeEntry(b []byte, start int) []byte {
	binary.BigEndian.PutUint32(b[start-entryHead:], uint32(len(b)-start))
	binary.BigEndian.PutUint32(b[start-4:], crc32.ChecksumIEEE(b[start:]))
	return b
}

// rewrite writes the live entries into a new file and continues with that file.
func (j *Journal) rewrite() error {
	f, err := os.CreateTemp(filepath.Dir(j.path), filepath.Base(j.path)+".*")
	if err != nil {
		return j.unwritten(err)
	}
	b, start := openEntry(nil)
	b = append(b, j.identity...)
	if !j.complete {
		b = append(b, incompleteSuffix...)
	}
	b = closeEntry(b, start)
	for key, value := range j.live {
		b = appendEntry(b, key, value, true)
	}
	_, err = f.Write(b)
	if err == nil {
		err = os.Rename(f.Name(), j.path)
	}
	if err != nil {
		f.Close()
		os.Remove(f.Name()) //nolint:errcheck // it is useless, not harmful
		return j.unwritten(err)
	}
	if j.file != nil {
		j.file.Close()
	}
	j.file, j.entries, j.pending = f, len(j.live), j.pending[:0]
	return nil
}

// unwritten returns the error for a journal that cannot be written. It does not contain the name of
// the new file, which differs in each try, so that all tries return the same error.
func (j *Journal) unwritten(err error) error {
	if of, ok := errors.AsType[*fs.PathError](err); ok {
		err = of.Err
	} else if of, ok := errors.AsType[*os.LinkError](err); ok {
		err = of.Err
	}
	return &dataplane.NodeError{
		Err:    fmt.Errorf("journal %s: %w", j.path, err),
		Remedy: "make room in its folder, or make it writable: the kernel is not told of changes before",
	}
}

// Complete reports whether the journal has everything that the kernel may have of the plane.
func (j *Journal) Complete() bool { return j.complete }

// SetComplete writes into the file that the journal is complete, with all entries.
func (j *Journal) SetComplete() error {
	if j.complete {
		return nil
	}
	j.complete = true
	if err := j.rewrite(); err != nil {
		j.complete = false
		return err
	}
	return nil
}

// Get returns the value of a key.
func (j *Journal) Get(key string) (value string, ok bool) {
	value, ok = j.live[key]
	return value, ok
}

// Put sets a value. The next Flush writes it to the file.
func (j *Journal) Put(key, value string) {
	if old, ok := j.live[key]; ok && old == value {
		return
	}
	j.live[key] = value
	j.note(key, value, true)
}

// Delete deletes a key. The next Flush writes that to the file.
func (j *Journal) Delete(key string) {
	if _, ok := j.live[key]; ok {
		delete(j.live, key)
		j.note(key, "", false)
	}
}

func (j *Journal) note(key, value string, there bool) {
	if j.path == "" {
		return
	}
	j.pending = appendEntry(j.pending, key, value, there)
	j.entries++
}

// Flush writes the pending entries in one write. If it fails, a later Flush writes all of them.
func (j *Journal) Flush() error {
	if len(j.pending) == 0 {
		return nil
	}
	if j.file == nil || j.entries > 2*len(j.live)+slack {
		return j.rewrite()
	}
	if _, err := j.file.Write(j.pending); err != nil {
		// The failed write may have left part of an entry, so nothing may be appended after it.
		j.file.Close()
		j.file = nil
		return j.rewrite()
	}
	j.pending = j.pending[:0]
	return nil
}

// Each calls fn with every value.
func (j *Journal) Each(fn func(key, value string) error) error {
	for key, value := range j.live {
		if err := fn(key, value); err != nil {
			return fmt.Errorf("journal: %w", err)
		}
	}
	return nil
}

// Close writes the pending entries and closes the file.
func (j *Journal) Close() error {
	err := j.Flush()
	if j.file == nil {
		return err
	}
	err = errors.Join(err, j.file.Close())
	j.file = nil
	return err
}

// Remove deletes the file, once the plane has no state left.
func (j *Journal) Remove() error {
	if j.path == "" {
		return nil
	}
	j.pending = nil
	return errors.Join(j.Close(), os.Remove(j.path))
}
