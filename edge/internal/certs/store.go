package certs

import (
	"context"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/balancer"
	"portolan.dev/services/kit/guard"
	"portolan.dev/services/object"
)

// Options are the settings of a Store.
type Options struct {
	// Dir is the folder with files NAME.crt and NAME.key, PEM; empty: none.
	Dir string
	// Guard catches panics of the work for one Secret.
	Guard *guard.Guard
	// Changed is called after files have changed. It may be nil.
	Changed func()
	Log     *slog.Logger
	// Every is the time between two checks of the files; 0 means 5 s.
	Every time.Duration
}

// Store has the certificates of all services. Make it with New, and call Run once. All other methods
// are safe for concurrent use.
type Store struct {
	opts    Options
	folder  folder
	tickets tickets

	changing sync.Mutex // held while another state is made
	state    atomic.Pointer[state]
}

// state has all certificates. It never changes.
type state struct {
	secrets map[object.Name]*certificate
	files   map[string]*certificate // by name without .crt
}

// New returns a store with the certificates of the folder. It returns an error if the folder cannot be read.
func New(o Options) (*Store, error) {
	if o.Every == 0 {
		o.Every = 5 * time.Second
	}
	if o.Changed == nil {
		o.Changed = func() {}
	}
	s := &Store{opts: o, folder: folder{dir: o.Dir, log: o.Log}}
	s.tickets.rotate()
	s.state.Store(&state{})
	if o.Dir == "" {
		return s, nil
	}
	if _, err := os.ReadDir(o.Dir); err != nil {
		return nil, fmt.Errorf("certs-dir: %w", err)
	}
	s.readFolder()
	return s, nil
}

// Run checks the files, and makes new keys of session tickets, until ctx is done.
func (s *Store) Run(ctx context.Context) error {
	check := time.NewTicker(s.opts.Every)
	defer check.Stop()
	rotate := time.NewTicker(ticketLife / (ticketKeys - 1))
	defer rotate.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-rotate.C:
			s.tickets.rotate()
		case <-check.C:
			if s.opts.Dir != "" && s.readFolder() {
				s.opts.Changed()
			}
		}
	}
}

// readFolder reads the files that have changed, and reports whether there are any.
func (s *Store) readFolder() bool {
	s.changing.Lock()
	defer s.changing.Unlock()
	files, changed := s.folder.read()
	if changed {
		s.state.Store(&state{secrets: s.state.Load().secrets, files: files})
	}
	return changed
}

// SetSecrets replaces all Secrets. Secrets are shared and never change, so those that were there
// before are not parsed again.
func (s *Store) SetSecrets(secrets []*corev1.Secret) {
	s.changing.Lock()
	defer s.changing.Unlock()
	old := s.state.Load()
	next := &state{secrets: make(map[object.Name]*certificate, len(secrets)), files: old.files}
	for _, secret := range secrets {
		name := object.NameOf(secret)
		if known := old.secrets[name]; known != nil {
			next.secrets[name] = known // also if the present version cannot be parsed
			if known.source == secret {
				continue
			}
		}
		s.opts.Guard.Run(stepCertificate, guard.Object(object.KeyOf(secret)), func() { next.secrets[name] = fromSecret(secret) })
	}
	s.opts.Guard.Forget(stepCertificate, func(o guard.Object) bool {
		return !slices.ContainsFunc(secrets, func(secret *corev1.Secret) bool { return guard.Object(object.KeyOf(secret)) == o })
	})
	s.state.Store(next)
}

// stepCertificate parses the certificate of a Secret.
const stepCertificate = "certificate"

// find returns the certificate of a reference, or nil.
func (st *state) find(namespace string, ref balancer.CertificateRef) *certificate {
	if ref.Kind != balancer.CertificateFile {
		if found := st.secrets[object.Name{Namespace: namespace, Name: ref.Name}]; found != nil {
			return found
		}
	}
	if ref.Kind != balancer.CertificateSecret {
		return st.files[ref.Name]
	}
	return nil
}

// Problems describes the problems of the certificates and of the policy of a service in a namespace, a sentence
// for each.
func (s *Store) Problems(namespace string, settings *balancer.Settings) []string {
	var all []string
	st, now, usable := s.state.Load(), time.Now(), 0
	if settings.TLS {
		if _, known := balancer.PolicyOf(settings.TLSPolicy); !known {
			all = append(all, fmt.Sprintf("the TLS policy %q is not known; %s is used", settings.TLSPolicy, balancer.DefaultPolicy))
		}
		for _, ref := range settings.Certificates {
			found := st.find(namespace, ref)
			if found != nil && found.pair != nil {
				usable++
			}
			if problem := found.problem(now); problem != "" {
				all = append(all, fmt.Sprintf("certificate %s: %s", ref, problem))
			}
		}
		if usable == 0 {
			all = append(all, "no certificate can be used, so that all TLS handshakes fail")
		}
	}
	if ref := settings.BackendCA; ref != nil && s.roots(namespace, *ref) == nil {
		all = append(all, fmt.Sprintf("certificates of authorities %s: there are none, so that no backend is trusted", *ref))
	}
	return all
}

// Expiry returns the time at which the first certificate of a service in a namespace expires, or the zero
// time if it has none that can be used.
func (s *Store) Expiry(namespace string, settings *balancer.Settings) (first time.Time) {
	st := s.state.Load()
	for _, ref := range settings.Certificates {
		found := st.find(namespace, ref)
		if found == nil || found.pair == nil {
			continue
		}
		if end := found.pair.Leaf.NotAfter; first.IsZero() || end.Before(first) {
			first = end
		}
	}
	return first
}

// roots returns the certificates of authorities of a reference, or nil.
func (s *Store) roots(namespace string, ref balancer.CertificateRef) *x509.CertPool {
	if found := s.state.Load().find(namespace, ref); found != nil {
		return found.roots
	}
	return nil
}
