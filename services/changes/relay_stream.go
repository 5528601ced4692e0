package changes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/object"
)

const metadataEpoch = "epoch"

// comparison is the result of comparing the stream with the log.
type comparison struct {
	epoch        string // of the log
	head, oldest uint64 // of the log
	last         uint64 // of the stream
	mismatch     string // the reason why the stream cannot be continued; empty if it can
	// diverged reports that the stream has changes that the log does not have, so followers may
	// have applied changes that are lost.
	diverged bool
	// installation is the identity of the log's installation.
	installation string
	// otherEpoch reports that the stream is of this installation and of another epoch than the log.
	otherEpoch bool
}

// align makes sure that the stream continues the log, recreating the stream if necessary, and
// returns the log's epoch and the stream's last revision.
func (r *Relay) align(ctx context.Context) (epoch string, last uint64, err error) {
	now, err := r.compare(ctx)
	if err != nil {
		return "", 0, err
	}
	if now.otherEpoch {
		if err := r.ownership.replaced(now.epoch, now.installation, time.Now()); err != nil {
			return "", 0, err
		}
	}
	if now.mismatch != "" {
		if err := r.rebuild(ctx, now.mismatch, false); err != nil {
			return "", 0, err
		}
		if now, err = r.compare(ctx); err != nil {
			return "", 0, err
		}
		if now.mismatch != "" {
			return "", 0, fmt.Errorf("stream was made anew and still does not fit: %s", now.mismatch)
		}
	}
	r.ownership.fit(now.epoch)
	if now.oldest > now.last {
		if err := r.skipPruned(ctx, now.oldest); err != nil {
			return "", 0, err
		}
		now.last = now.oldest
	}
	r.last.Store(now.last)
	return now.epoch, now.last, nil
}

// compare compares the stream with the log. It reads the stream's state before the log's head,
// because otherwise another relay could publish beyond the head that was read.
func (r *Relay) compare(ctx context.Context) (comparison, error) {
	stream, err := r.getStream(ctx)
	missing := errors.Is(err, jetstream.ErrStreamNotFound)
	if err != nil && !missing {
		return comparison{}, fmt.Errorf("look at the stream: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, r.cfg.AckTimeout)
	defer cancel()
	var now comparison
	now.epoch, now.head, now.oldest, err = r.cfg.Log.Head(ctx)
	if err != nil {
		return comparison{}, fmt.Errorf("read the head of the log: %w", err)
	}
	if now.installation, err = r.cfg.Log.Installation(ctx); err != nil {
		return comparison{}, fmt.Errorf("read the identity of the installation: %w", err)
	}
	var info *jetstream.StreamInfo
	if !missing {
		info = stream.CachedInfo()
	}
	err = r.ownership.admit(info, now.installation, time.Now())
	if r.foreign.Store(err != nil); err != nil {
		return comparison{}, err
	}
	if missing {
		now.mismatch = noStream
		return now, nil
	}
	now.last = info.State.LastSeq
	r.metrics.streamBytes.Set(float64(info.State.Bytes))
	switch {
	case !r.configMatches(info.Config):
		now.mismatch = "it is not configured as ours"
	case info.Config.Metadata[metadataEpoch] != now.epoch:
		now.mismatch, now.otherEpoch = "it is of another epoch", true
	case info.Config.Metadata[metadataInstallation] == "":
		now.mismatch = "it names no installation"
	case now.last > now.head:
		now.mismatch, now.diverged = fmt.Sprintf("it is at %d, the log at %d", now.last, now.head), true
	default:
		same, err := r.sameAt(ctx, stream, now)
		if err != nil {
			return comparison{}, err
		}
		if !same {
			now.mismatch, now.diverged = fmt.Sprintf("revision %d is not the log's", now.last), true
		}
	}
	return now, nil
}

// getStream returns the stream with its current state.
func (r *Relay) getStream(ctx context.Context) (jetstream.Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, r.patience.next())
	defer cancel()
	stream, err := r.js.Stream(ctx, r.subjects.stream())
	if !errors.Is(err, context.DeadlineExceeded) {
		r.patience.answered()
	}
	return stream, err
}

// firstPatience is the timeout of the first request.
const firstPatience = 500 * time.Millisecond

// patience is the timeout of a request that may be repeated. A server that is starting, or that has no
// leader yet, never answers requests that it received too early. Therefore the timeout is short at first.
// It doubles while there is no answer, because a server may be slow.
type patience struct {
	most    time.Duration
	current time.Duration
}

func (p *patience) next() time.Duration {
	p.current = min(max(2*p.current, firstPatience), p.most)
	return p.current
}

func (p *patience) answered() { p.current = 0 }

// configMatches reports whether an existing stream has the configuration that the relay needs. The stream's
// size and replicas are not compared, because operators may change them.
func (r *Relay) configMatches(cfg jetstream.StreamConfig) bool {
	return slices.Equal(cfg.Subjects, []string{r.subjects.Changes()}) && !cfg.Sealed && cfg.MaxMsgsPerSubject <= 0 &&
		cfg.RePublish != nil && cfg.RePublish.Destination == r.subjects.republished() && !cfg.RePublish.HeadersOnly
}

// sameAt reports whether the stream's last message equals the log's change of that revision. If the
// stream or the log no longer has it, sameAt reports true.
func (r *Relay) sameAt(ctx context.Context, stream jetstream.Stream, now comparison) (bool, error) {
	if r.verifiedIn == now.epoch && r.verified == now.last {
		return true, nil
	}
	if now.last == 0 || now.last <= now.oldest || stream.CachedInfo().State.Msgs == 0 {
		return true, nil // the stream or the log no longer has it
	}
	msg, err := stream.GetMsg(ctx, now.last)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return true, nil // it has aged out since
	}
	if err != nil {
		return false, fmt.Errorf("read revision %d from the stream: %w", now.last, err)
	}
	logged, err := r.cfg.Log.After(ctx, now.last-1, 1)
	if err != nil || len(logged) == 0 {
		return false, fmt.Errorf("read revision %d from the log: %w", now.last, cmp.Or(err, errLogEnds))
	}
	if msg.Header.Get(headerElided) == "" {
		published := &registryv1.Change{}
		if published.UnmarshalVT(msg.Data) != nil || !sameChange(published, logged[0].Change) {
			return false, nil
		}
	}
	r.verified, r.verifiedIn = now.last, now.epoch
	return true, nil
}

var errLogEnds = errors.New("the log ends before its head")

// sameChange compares the fields that identify a change, not every byte. Relays of two versions
// must agree even if only one of them has a certain field.
func sameChange(a, b *registryv1.Change) bool {
	keyA, uidA := identityOf(a.GetObject())
	keyB, uidB := identityOf(b.GetObject())
	apart := a.GetTime().AsTime().Sub(b.GetTime().AsTime()).Abs()
	return a.GetRevision() == b.GetRevision() && a.GetType() == b.GetType() && keyA == keyB && uidA == uidB && apart < time.Millisecond
}

func identityOf(envelope *corev1.Object) (object.Key, string) {
	o := object.Unwrap(envelope)
	if o == nil {
		return object.Key{}, ""
	}
	return object.KeyOf(o), o.GetMetadata().GetUid()
}

// noStream is the reason for creating the stream when there is none, at the first start or after it
// was lost.
const noStream = "it does not exist"

// rebuild recreates the stream, unless another relay has done so meanwhile. If the stream has
// changes that the log lacks, rebuild first gives the log a new epoch, so that every follower takes
// a new snapshot even if this relay dies before the stream exists. With force, rebuild recreates
// the stream even if compare finds nothing wrong with it.
func (r *Relay) rebuild(ctx context.Context, why string, force bool) error {
	return r.cfg.Log.Lock(ctx, func(ctx context.Context) error {
		now, err := r.compare(ctx)
		if err != nil {
			return err
		}
		if now.mismatch == "" && !force {
			return nil
		}
		if now.diverged {
			if now.epoch, err = r.cfg.Log.NewEpoch(ctx); err != nil {
				return fmt.Errorf("give the log a new epoch: %w", err)
			}
		}
		ctx, cancel := context.WithTimeout(ctx, r.cfg.AckTimeout)
		defer cancel()
		if now.mismatch != noStream {
			if err := r.js.DeleteStream(ctx, r.subjects.stream()); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
				return fmt.Errorf("delete the stream: %w", err)
			}
		}
		if _, err := r.js.CreateStream(ctx, r.streamConfig(now)); err != nil {
			return fmt.Errorf("create the stream: %w", err)
		}
		r.verified, r.verifiedIn = 0, ""
		r.refusals.forget()
		r.metrics.rebuilds.Inc()
		level := slog.LevelWarn
		if why == noStream {
			level = slog.LevelInfo // normal at the first start
		}
		r.cfg.Logger.Log(ctx, level, "change stream made anew", "because", why, "epoch", now.epoch, "after", now.head)
		return nil
	})
}

func (r *Relay) streamConfig(now comparison) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:        r.subjects.stream(),
		Description: "a recent window of the registry's log; sequence = revision",
		Subjects:    []string{r.subjects.Changes()},
		Storage:     jetstream.FileStorage,
		Replicas:    r.cfg.Replicas,
		MaxMsgs:     r.cfg.MaxMsgs,
		MaxBytes:    r.cfg.MaxBytes,
		MaxMsgSize:  maxMessage,
		Discard:     jetstream.DiscardOld,
		AllowDirect: true,
		DenyDelete:  true,
		FirstSeq:    now.head + 1,
		RePublish:   &jetstream.RePublish{Source: r.subjects.Changes(), Destination: r.subjects.republished()},
		Metadata:    map[string]string{metadataEpoch: now.epoch, metadataInstallation: now.installation},
	}
}

// skipPruned moves the stream's start forward to the oldest revision of the log. The log no longer
// has the changes in between, so a follower that lacks them takes a snapshot.
func (r *Relay) skipPruned(ctx context.Context, oldest uint64) error {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.AckTimeout)
	defer cancel()
	stream, err := r.js.Stream(ctx, r.subjects.stream())
	if err == nil {
		err = stream.Purge(ctx, jetstream.WithPurgeSequence(oldest+1))
	}
	if err != nil {
		return fmt.Errorf("move the stream forward to %d: %w", oldest, err)
	}
	r.cfg.Logger.Warn("change stream moved forward: the log was pruned", "to", oldest)
	return nil
}
