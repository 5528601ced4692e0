package dump

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	allocatorv1 "portolan.dev/api/allocator/v1"

	"portolan.dev/allocator/pool"
	"portolan.dev/allocator/store"
)

// FuzzRead reads any file, with its own end or with the right one for its lines. The file is refused,
// or its content is the same after it was written and read again.
func FuzzRead(f *testing.F) {
	split := ports
	split.Name, split.Range, split.PerProtocol = "split", "31000-31009", true
	careful := store.Pool{Name: "careful", Use: allocatorv1.Use_USE_LOAD_BALANCER_IP, Range: "198.18.0.0/16", State: ports.State, AvoidBuggyIPs: true}
	udp := held(0)
	udp.Value, udp.Pool = pool.PortValueFor(31001, pool.UDP), "split"
	resting := held(30002)
	resting.Claims, resting.Released = nil, time.UnixMilli(7)
	for _, content := range []Content{{}, {Pools: []store.Pool{ports, split, careful}, Allocations: []store.Allocation{held(30001), resting, udp}}} {
		var out bytes.Buffer
		if _, err := Write(&out, content.Snapshot(), "test", time.UnixMilli(9)); err != nil {
			f.Fatal(err)
		}
		f.Add(out.Bytes(), false)
		f.Add(out.Bytes()[:out.Len()-1], true)
	}
	f.Fuzz(func(t *testing.T, file []byte, seal bool) {
		if seal {
			file = sealed(t, file)
		}
		content, err := Read(bytes.NewReader(file))
		if err != nil {
			return
		}
		var out bytes.Buffer
		if _, err := Write(&out, content.Snapshot(), "test", time.UnixMilli(9)); err != nil {
			t.Fatal(err)
		}
		if again, err := Read(&out); err != nil || !reflect.DeepEqual(again, content) {
			t.Fatalf("%+v came back as %+v, %v", content, again, err)
		}
	})
}

// sealed replaces the ends of a file by the right one for its other lines.
func sealed(t *testing.T, file []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	var n Counts
	sum := sha256.New()
	for line := range bytes.Lines(file) {
		var rec record
		if json.Unmarshal(line, &rec) != nil || rec.End != nil || !bytes.HasSuffix(line, []byte("\n")) {
			continue
		}
		if rec.Pool != nil {
			n.Pools++
		} else if rec.Allocation != nil {
			n.Allocations++
		}
		out.Write(line)
		sum.Write(line)
	}
	if err := json.NewEncoder(&out).Encode(record{End: &end{Pools: n.Pools, Allocations: n.Allocations, SHA256: hex.EncodeToString(sum.Sum(nil))}}); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
