package changes

import (
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// metadataInstallation is the key of the installation's identity in the stream's metadata.
const metadataInstallation = "installation"

const (
	// absentOwner is the time for which a relay that found the stream of another installation does not
	// make its own stream if that one is gone. The owner makes a lost stream anew within seconds.
	absentOwner = time.Minute
	// contestsOver is the time after which replacements of the stream are forgotten.
	contestsOver = 10 * time.Minute
	// longestTruce is the longest time for which a relay leaves a stream that replaced its own.
	longestTruce = time.Minute
)

// ownership decides whether the relay may replace a stream. The rule: the stream of another installation is
// left alone. Two registries that are not replicas of each other may be configured with one NATS server and
// one prefix by mistake, usually because one of them runs on a backup that was restored for practice. Without
// the rule each of them would replace the stream of the other at each check.
//
// A physical copy of the store has the identity of the original, so the rule does not apply to it. Both relays
// then find that their stream was replaced although their own log has not changed. They name the reason, and
// wait longer before each further replacement.
type ownership struct {
	prefix string

	foreign time.Time // the last time that the stream was another installation's

	fits      string // epoch of the log for which the stream was last right
	contests  int    // replacements of the stream by a registry with a copy of the store
	contested time.Time
}

// admit returns an error if the stream belongs to another installation. info is nil if there is no stream.
func (o *ownership) admit(info *jetstream.StreamInfo, own string, now time.Time) error {
	if info == nil {
		if left := absentOwner - now.Sub(o.foreign); !o.foreign.IsZero() && left > 0 {
			return &refusedError{fmt.Sprintf("the change stream of another installation is gone; this one makes its own in %s, unless the other one comes back", left.Round(time.Second))}
		}
		return nil
	}
	owner := info.Config.Metadata[metadataInstallation]
	if owner == "" || owner == own {
		return nil
	}
	o.foreign = now
	return &refusedError{fmt.Sprintf("the change stream at prefix %q of this NATS server belongs to another installation: %s, and this one is %s. "+
		"Give all daemons of this one another -nats-prefix, or another NATS server. If this one takes the place of the other, stop the registries of the other, "+
		"and set the identity of this store by: registry installation -set %s", o.prefix, owner, own, owner)}
}

// replaced records that the stream is of another epoch than the log. It returns an error while the relay has
// to wait before it replaces the stream.
func (o *ownership) replaced(epoch, own string, now time.Time) error {
	if o.fits != epoch {
		return nil // the log has begun anew
	}
	if now.Sub(o.contested) > contestsOver {
		o.contests = 0
	}
	truce := o.truce()
	if wait := truce - now.Sub(o.contested); o.contests > 0 && wait > 0 {
		return &refusedError{fmt.Sprintf("the change stream was replaced %d times by a registry with a copy of this store, which is of installation %s: stop it, or give the copy an identity of its own by: registry installation -set new",
			o.contests, own)}
	}
	o.contests, o.contested = o.contests+1, now
	return nil
}

// truce returns the time between two replacements of the stream.
func (o *ownership) truce() time.Duration {
	return min(time.Second<<min(o.contests, 10), longestTruce)
}

// fit records that the stream is right for an epoch of the log.
func (o *ownership) fit(epoch string) { o.fits, o.foreign = epoch, time.Time{} }
