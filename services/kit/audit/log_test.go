package audit_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"portolan.dev/services/kit/audit"
	"portolan.dev/services/kit/kittest"
)

// TestLinesAreJSON writes entries with any text, as an attacker chooses it, and reads them back.
func TestLinesAreJSON(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.Custom(func(rt *rapid.T) string {
			return string(rapid.SliceOfN(rapid.Byte(), 0, 400).Draw(rt, "bytes"))
		}))
		want := audit.Entry{
			Time:     time.UnixMicro(rapid.Int64Range(0, 1<<50).Draw(rt, "time")).UTC(),
			Identity: text.Draw(rt, "identity"), Via: text.Draw(rt, "via"), Token: text.Draw(rt, "token"), Serial: text.Draw(rt, "serial"), Peer: text.Draw(rt, "peer"), Method: text.Draw(rt, "method"), Bulk: rapid.Bool().Draw(rt, "bulk"),
			Code: "OK", Reason: text.Draw(rt, "reason"), TraceID: text.Draw(rt, "trace"), Seconds: float64(rapid.IntRange(0, 1e6).Draw(rt, "ms")) / 1000,
			Object: audit.Object{
				Kind: text.Draw(rt, "kind"), Namespace: text.Draw(rt, "namespace"), Name: text.Draw(rt, "name"), UID: text.Draw(rt, "uid"),
				Objects: rapid.IntRange(0, 1000).Draw(rt, "objects"), DryRun: rapid.Bool().Draw(rt, "dry"), Revision: rapid.Uint64().Draw(rt, "revision"),
			},
		}
		f := open(t, nil)
		f.Record(&want)
		f.Close()
		content, err := os.ReadFile(f.path)
		if err != nil {
			rt.Fatal(err)
		}
		if strings.Trim(string(content), " !\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~") != "\n" {
			rt.Fatalf("the line has other characters than printable ASCII: %q", content)
		}
		got := parse(t, content)
		if len(got) != 1 || len(content) > 16<<10 {
			rt.Fatalf("%d lines, %d bytes", len(got), len(content))
		}
		want.Daemon, want.Instance = "registry", got[0].Instance
		for _, s := range []*string{&want.Identity, &want.Via, &want.Token, &want.Serial, &want.Peer, &want.Method, &want.Reason, &want.TraceID, &want.Kind, &want.Namespace, &want.Name, &want.UID} {
			*s = shown(*s)
		}
		if got[0].Entry != want {
			rt.Fatalf("got  %+v\nwant %+v", got[0].Entry, want)
		}
	})
}

// shown returns a text as a line has it: at most 256 bytes, bytes that are not UTF-8 replaced.
func shown(text string) string {
	cut := len(text) > 256
	if cut {
		text = text[:256]
	}
	var out strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		out.WriteRune(r)
		text = text[size:]
	}
	if cut {
		out.WriteString("...")
	}
	return out.String()
}

// TestCloseWritesEverything closes the log while many callers record.
func TestCloseWritesEverything(t *testing.T) {
	f := open(t, nil)
	var callers sync.WaitGroup
	for c := range 8 {
		callers.Go(func() {
			for n := range 500 {
				f.Record(sample(fmt.Sprint(c, "-", n)))
			}
		})
	}
	callers.Wait()
	f.Close()
	names := map[string]bool{}
	for _, l := range read(t, f.path) {
		names[l.Name] = true
	}
	if len(names) != 8*500 {
		t.Errorf("%d of 4000 lines", len(names))
	}
	f.Record(sample("late"))
	f.Close()
	if n := f.dropped("queue"); n != 1 {
		t.Errorf("a line after the end is counted as %d dropped lines", n)
	}
}

// TestFullQueueDropsAndCounts records more lines than fit while the pipe is not read, as with a disk
// that has stopped answering.
func TestFullQueueDropsAndCounts(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := makePipe(pipe); err != nil {
		t.Skip(err)
	}
	reader, err := os.OpenFile(pipe, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	f := open(t, func(o *audit.Options) { o.Path = pipe })
	const recorded = 30_000 // lines of about 350 bytes
	for n := range recorded {
		f.Record(sample(fmt.Sprint(n))) // would wait forever if it waited for the reader
	}
	dropped := f.dropped("queue")
	if dropped == 0 {
		t.Fatal("nothing was dropped")
	}
	content := make(chan []byte)
	go func() {
		var all []byte
		buffer := make([]byte, 1<<16)
		for !strings.Contains(string(all[max(0, len(all)-1000):]), `"dropped":`) {
			n, err := reader.Read(buffer)
			if err != nil {
				break
			}
			all = append(all, buffer[:n]...)
		}
		content <- all
	}()
	f.Close()
	all := kittest.Receive(t, "the lines", content)
	if len(all) > 4<<20+1<<17 {
		t.Errorf("%d bytes were kept", len(all))
	}
	lines := parse(t, all)
	last := lines[len(lines)-1]
	if last.Cause != "queue" || int(last.Dropped) != dropped || len(lines)-1+dropped != recorded {
		t.Errorf("%d lines, %d counted, and the last line says %d of %q", len(lines)-1, dropped, last.Dropped, last.Cause)
	}
}

// TestRotation writes more than the files may have.
func TestRotation(t *testing.T) {
	f := open(t, func(o *audit.Options) { o.MaxBytes, o.Keep = 10_000, 2 })
	for n := range 1000 {
		f.Record(sample(fmt.Sprint(n)))
	}
	f.Close()
	next := -1
	for _, name := range []string{f.path + ".2", f.path + ".1", f.path} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() > 10_000 || info.Mode() != 0o600 {
			t.Errorf("%s has %d bytes, mode %s", name, info.Size(), info.Mode())
		}
		for _, l := range read(t, name) {
			var n int
			if _, err := fmt.Sscan(l.Name, &n); err != nil || next >= 0 && n != next {
				t.Fatalf("line %q after %d", l.Name, next-1)
			}
			next = n + 1
		}
	}
	if next != 1000 {
		t.Errorf("the last line is %d", next-1)
	}
	if _, err := os.Stat(f.path + ".3"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a third old file: %v", err)
	}
}

// TestMovedFileIsFollowed moves the file away, as logrotate does.
func TestMovedFileIsFollowed(t *testing.T) {
	f := open(t, nil)
	if err := os.Rename(f.path, f.path+".moved"); err != nil {
		t.Fatal(err)
	}
	kittest.Eventually(t, "a new file", func() error {
		f.Record(sample("web"))
		_, err := os.Stat(f.path)
		return err
	})
	f.Close()
	if lines := read(t, f.path); len(lines) == 0 {
		t.Error("the new file is empty")
	}
}

// TestFullDisk records on a disk without space.
func TestFullDisk(t *testing.T) {
	f := open(t, func(o *audit.Options) { o.Path = "/dev/full" })
	for n := range 100 {
		f.Record(sample(fmt.Sprint(n)))
	}
	f.Close()
	if n := f.dropped("disk"); n != 100 {
		t.Errorf("%d of 100 lines are counted", n)
	}
}

// TestRefusalsOfOneCallerAreLimited lets one caller be refused very often. Its lines end, and those
// of another caller and of calls that succeed do not.
func TestRefusalsOfOneCallerAreLimited(t *testing.T) {
	f := open(t, nil)
	flood := func(name string, change func(*audit.Entry)) {
		for range 10_000 {
			e := sample(name)
			e.Code = "PERMISSION_DENIED"
			change(e)
			f.Record(e)
		}
	}
	flood("attacker", func(*audit.Entry) {})
	flood("without certificate", func(e *audit.Entry) { e.Serial = "" })
	other := sample("other")
	other.Code, other.Serial = "PERMISSION_DENIED", "1"
	f.Record(other)
	f.Record(sample("change"))
	f.Close()
	count, missing := map[string]int{}, 0
	for _, l := range read(t, f.path) {
		count[l.Name]++
		missing += int(l.Dropped)
	}
	for _, name := range []string{"attacker", "without certificate"} {
		if n := count[name]; n < 100 || n > 400 { // 5 per second besides
			t.Errorf("%d lines of %s", n, name)
		}
	}
	if count["other"] != 1 || count["change"] != 1 {
		t.Errorf("%d refusals of others, %d changes", count["other"], count["change"])
	}
	if n := f.dropped("rate"); n != missing || n+count["attacker"]+count["without certificate"] != 20_000 {
		t.Errorf("%d counted, the log says %d", n, missing)
	}
}

// TestOpenNamesTheSetting opens a log in a folder that does not exist.
func TestOpenNamesTheSetting(t *testing.T) {
	_, err := audit.Open(audit.Options{Path: filepath.Join(t.TempDir(), "none", "audit.log"), Log: kittest.Logger(t)})
	if err == nil || !strings.HasPrefix(err.Error(), "audit-log: ") {
		t.Errorf("got %v", err)
	}
}

// BenchmarkRecord records lines as creates do, into a file.
func BenchmarkRecord(b *testing.B) {
	f := open(b, nil)
	e := sample("web")
	b.ReportAllocs()
	for b.Loop() {
		f.Record(e)
	}
}
