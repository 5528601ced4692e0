package obs

import (
	"cmp"
	"runtime/debug"
)

// release and commit are set by the linker (-X) in builds for a release (see tools/release). Those
// have no record of version control, so that their bytes do not depend on the state of a checkout.
var release, commit string

// Version returns the version of this program for messages: the module's version, and the commit if
// version control recorded one.
func Version() string {
	version, revision := buildVersion()
	if revision == "unknown" {
		return version
	}
	return version + " (" + revision[:min(len(revision), 12)] + ")"
}

// Release returns the version of this program without the commit: the release, or the module's
// version if this is no build for a release, or "unknown".
func Release() string {
	version, _ := buildVersion()
	return version
}

// buildVersion returns the version and the commit of the release, or those that the linker recorded.
// Both may be "unknown" in a build outside version control.
func buildVersion() (version, revision string) {
	version, revision = "unknown", "unknown"
	if release != "" {
		return release, cmp.Or(commit, revision)
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return version, revision
	}
	if info.Main.Version != "" {
		version = info.Main.Version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			revision = s.Value
		}
	}
	return version, revision
}
