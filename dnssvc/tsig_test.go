package dnssvc_test

import (
	"encoding/base64"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"portolan.dev/services/changes/changestest"
	"portolan.dev/services/kit/config"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/rpc"

	"portolan.dev/dnssvc"
	"portolan.dev/dnssvc/internal/dnstest"
	"portolan.dev/dnssvc/internal/server"
)

// TestTransfersByKey transfers a zone to a secondary with a key of the file, and checks that all
// others are refused.
func TestTransfersByKey(t *testing.T) {
	secret := base64.StdEncoding.EncodeToString([]byte("a secret of thirty-two bytes, yes"))
	file := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(file, []byte("key second { algorithm hmac-sha512; secret "+secret+"; };"), 0o600); err != nil {
		t.Fatal(err)
	}
	log := changestest.New(t)
	log.Put(dnstest.Namespace("default"), dnstest.Service("default/web", "10.96.0.1", "80:http/tcp"))
	cfg := testConfig(t, "127.53.240.9")
	cfg.TransferKeys = file
	r := start(t, cfg, log)
	r.synced(t)
	for signed, want := range map[bool]int{true: dns.RcodeSuccess, false: dns.RcodeRefused} {
		client := &dns.Client{Net: "tcp", Timeout: dnstest.AnswerTimeout, TsigSecret: map[string]string{"second.": secret}}
		m := new(dns.Msg).SetAxfr("cluster.local.")
		if signed {
			m.SetTsig("second.", dns.HmacSHA512, 300, time.Now().Unix())
		}
		reply, _, err := client.Exchange(m, r.addr)
		if err != nil || reply.Rcode != want || signed != (len(reply.Answer) > 2) || signed != (reply.IsTsig() != nil) {
			t.Errorf("signed %v: %v, %v", signed, reply, err)
		}
	}

	for what, change := range map[string]func(*dnssvc.Config){
		"transfer-keys: open ": func(c *dnssvc.Config) { c.TransferKeys = file + "x" },
		"third: there is no such key in transfer-keys": func(c *dnssvc.Config) {
			c.Notify = []server.Secondary{{Addr: netip.MustParseAddrPort(r.addr), Key: "third."}}
		},
	} {
		cfg := testConfig(t, "127.53.240.9")
		cfg.TransferKeys = file
		change(&cfg)
		_, err := dnssvc.New(t.Context(), cfg, kittest.Host(t, rpc.Memory(), "nats://127.0.0.1:1"))
		if !errors.Is(err, config.ErrInvalid) || !strings.Contains(err.Error(), what) || strings.Contains(err.Error(), secret) {
			t.Errorf("got %v, want %q", err, what)
		}
	}
}
