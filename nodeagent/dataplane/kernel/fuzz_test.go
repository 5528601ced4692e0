package kernel_test

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"portolan.dev/nodeagent/dataplane/kernel"
	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/object"
)

// FuzzRecord decodes any frontend and any sources of the journal. A record that can be decoded
// has valid ranges and no negative time, and stays the same if it is encoded and decoded again.
func FuzzRecord(f *testing.F) {
	at := plan.Frontend{Addr: netip.MustParseAddrPort("10.96.0.1:80"), Protocol: plan.TCP}
	attributes := plan.Attributes{
		Service: object.Name{Namespace: "default", Name: "web"}, PortName: "http", Affinity: 3 * time.Hour, Drain: time.Minute,
		Restricted: true, Allowed: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/64")},
	}
	server := &plan.VirtualServer{Key: plan.Key{Frontend: at}, Attributes: attributes}
	outside := &plan.VirtualServer{Key: plan.Key{Frontend: at, Audience: 1}, Attributes: attributes}
	for _, servers := range [][3]*plan.VirtualServer{{}, {server}, {server, outside}} {
		key, value := kernel.EncodeFront(at, servers)
		f.Add([]byte(key), []byte(value))
	}
	f.Add([]byte{}, []byte(kernel.EncodeSources(&plan.Sources{Pods: attributes.Allowed, Node: attributes.Allowed[:1]})))
	f.Fuzz(func(t *testing.T, key, value []byte) {
		sources, err := kernel.DecodeSources(string(value))
		if err == nil {
			valid(t, sources.Pods)
			valid(t, sources.Node)
			if again, err := kernel.DecodeSources(kernel.EncodeSources(&sources)); err != nil || !again.Equal(&sources) {
				t.Fatalf("%v came back as %v, %v", sources, again, err)
			}
		}
		servers, err := kernel.DecodeFront(string(key), string(value))
		if err != nil {
			return
		}
		var front plan.Frontend
		for _, s := range servers {
			if s != nil {
				front = s.Frontend
				valid(t, s.Allowed)
				if s.Affinity < 0 || s.Drain < 0 {
					t.Fatalf("a negative time: %+v", s)
				}
			}
		}
		again, err := kernel.DecodeFront(kernel.EncodeFront(front, servers))
		if err != nil {
			t.Fatalf("%+v cannot be read back: %v", servers, err)
		}
		for a, want := range servers {
			if (want == nil) != (again[a] == nil) || want != nil && !again[a].Equal(want) {
				t.Fatalf("%+v came back as %+v", want, again[a])
			}
		}
	})
}

func valid(t *testing.T, prefixes []netip.Prefix) {
	t.Helper()
	for _, p := range prefixes {
		if !p.IsValid() {
			t.Fatalf("%v is no range", prefixes)
		}
	}
}

// FuzzJournal opens files that begin as a journal of this namespace and continue with any bytes. A
// journal opens, and when it is opened again it has the same contents.
func FuzzJournal(f *testing.F) {
	journal := func(tb testing.TB, path string, changes func(*kernel.Journal)) []byte {
		j := openJournal(tb, path)
		changes(j)
		if err := j.Close(); err != nil {
			tb.Fatal(err)
		}
		file, err := os.ReadFile(path)
		if err != nil {
			tb.Fatal(err)
		}
		return file
	}
	head := journal(f, filepath.Join(f.TempDir(), "journal"), func(*kernel.Journal) {})
	whole := journal(f, filepath.Join(f.TempDir(), "journal"), func(j *kernel.Journal) {
		j.Put("a", "1")
		j.Put("b", "2")
		j.Delete("a")
	})
	f.Add(whole[len(head):])
	f.Add(whole[len(head) : len(whole)-1])
	f.Add([]byte("\x00\x00\x00\x00\x00\x00\x00\x00"))
	f.Add([]byte("\xff\xff\xff\xff\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, rest []byte) {
		path := filepath.Join(t.TempDir(), "journal")
		if err := os.WriteFile(path, append(head[:len(head):len(head)], rest...), 0o600); err != nil {
			t.Fatal(err)
		}
		first := openJournal(t, path)
		want := content(t, first)
		if err := first.Close(); err != nil {
			t.Fatal(err)
		}
		second := openJournal(t, path)
		defer second.Close()
		got := content(t, second)
		for key, value := range want {
			if got[key] != value {
				t.Fatalf("%q is %q, then %q", key, value, got[key])
			}
		}
		if len(got) != len(want) {
			t.Fatalf("%d entries, then %d", len(want), len(got))
		}
	})
}
