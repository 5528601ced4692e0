package ipvs

import (
	"fmt"
	"strings"
	"testing"

	"portolan.dev/nodeagent/plan"
)

// FuzzTable parses any list of virtual servers. A list that is parsed stays the same when it is
// written in the kernel's form and parsed again.
func FuzzTable(f *testing.F) {
	f.Add(table)
	f.Add("TCP  0A600101:0050 wrr\n  -> 0A400101:1F90      Masq    3      2\n")
	f.Add("TCP  [::1]]:0050 wrr\n")
	f.Add("UDP  [fe80::1%eth0]:0050 wrr\n")
	f.Add("-> 0A400101:1F90 Masq 1 1 1\nTCP\n")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseTable(strings.NewReader(text))
		if err != nil {
			return
		}
		var list strings.Builder
		for id, backends := range got {
			if !id.Addr.IsValid() {
				t.Fatalf("%q has a server without an address", text)
			}
			fmt.Fprintf(&list, "%s  %s rr\n", strings.ToUpper(id.Protocol.String()), hexAddr(id))
			for _, b := range backends {
				if !b.Addr.IsValid() {
					t.Fatalf("%q has a backend without an address", text)
				}
				fmt.Fprintf(&list, "  -> %s Masq %d %d %d\n", hexAddr(plan.Frontend{Addr: b.Addr}), b.Weight, b.Connections, b.Closing)
			}
		}
		again, err := parseTable(strings.NewReader(list.String()))
		if err != nil || len(again) != len(got) {
			t.Fatalf("%q\nwritten as\n%s\n%v", text, list.String(), err)
		}
		for id, backends := range got {
			for i, b := range backends {
				if id.Protocol != plan.UDP && again[id][i] != b {
					t.Fatalf("%v came back as %v", b, again[id][i])
				}
			}
		}
	})
}

func hexAddr(f plan.Frontend) string {
	addr := f.Addr.Addr()
	if addr.Is4() {
		v4 := addr.As4()
		return fmt.Sprintf("%X:%04X", v4[:], f.Addr.Port())
	}
	return fmt.Sprintf("[%s]:%04X", addr, f.Addr.Port())
}
