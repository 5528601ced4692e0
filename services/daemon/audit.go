package daemon

import (
	"errors"
	"path/filepath"

	"portolan.dev/services/access"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/audit"
	"portolan.dev/services/kit/rpc"
)

// Audit holds the settings of a daemon's audit log.
type Audit struct {
	AuditLog         string `flag:"audit-log" usage:"file of the audit log, or stdout; empty: none"`
	AuditLogMaxBytes int64  `flag:"audit-log-max-bytes" default:"64" usage:"size at which the file of the audit log is rotated, in MiB"`
	AuditLogKeep     int    `flag:"audit-log-keep" default:"5" usage:"number of rotated files of the audit log that are kept"`
	AuditReads       bool   `flag:"audit-reads" default:"false" usage:"record calls that only read, too"`
}

// Validate returns an error that lists all wrong settings.
func (a *Audit) Validate() error {
	if a.AuditLog == "" {
		return nil
	}
	var errs []error
	if a.AuditLog != audit.Stdout && !filepath.IsAbs(a.AuditLog) {
		errs = append(errs, errors.New("audit-log: must be stdout or the absolute path of a file"))
	}
	if a.AuditLogMaxBytes <= 0 {
		errs = append(errs, errors.New("audit-log-max-bytes: must be more than nothing"))
	}
	if a.AuditLogKeep < 0 {
		errs = append(errs, errors.New("audit-log-keep: must not be negative"))
	}
	return errors.Join(errs...)
}

// openAudit opens the audit log of a daemon. It returns nil if none is configured.
func (a *Audit) openAudit(name string, host app.Host) (*audit.Log, error) {
	if a.AuditLog == "" {
		return nil, nil
	}
	return audit.Open(audit.Options{
		Path: a.AuditLog, MaxBytes: a.AuditLogMaxBytes << 20, Keep: a.AuditLogKeep, Reads: a.AuditReads,
		Daemon: name, Log: host.Log, Metrics: host.Metrics,
	})
}

// auditOf returns the audit settings for the gRPC server of a daemon.
func auditOf(host app.Host) rpc.Audit {
	if host.Audit == nil {
		return rpc.Audit{}
	}
	return rpc.Audit{
		Log:    host.Audit,
		Always: func(method string) bool { return host.Audit.Reads() || access.Audited(method) },
		Object: objectOf, Operations: operationsOf,
	}
}
