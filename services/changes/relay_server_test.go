package changes_test

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"portolan.dev/services/changes"
	"portolan.dev/services/changes/changestest"
	"portolan.dev/services/kit/kittest"
)

// TestOldNATSIsNamed checks that a relay makes no stream at a NATS server that would ignore parts of its
// configuration, and that the warning has the version and the remedy.
func TestOldNATSIsNamed(t *testing.T) {
	_, url := kittest.NATS(t)
	js := jetStream(t, url)
	p := runParty(t, kittest.NATSOfVersion(t, url, "2.9.10"), "first", 3)
	p.awaitWarning(t, "change stream: ", "version 2.9.10", "2.10 or later", "install a later nats-server")
	if _, err := js.Stream(t.Context(), changestest.Stream); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("there is a stream: %v", err)
	}
}

func TestVersionsOfNATS(t *testing.T) {
	_, url := kittest.NATS(t)
	for version, ok := range map[string]bool{
		"2.9.25": false, "2.8.0": false, "1.4.1": false, "2.10.0": true, "2.10.0-beta.3": true, "2.12.1": true, "3.0.0": true, "10.1": true,
		"": true, "development": true,
	} {
		if err := changes.CheckServer(kittest.NATSConn(t, kittest.NATSOfVersion(t, url, version))); (err == nil) != ok {
			t.Errorf("version %q: %v", version, err)
		}
	}
}
