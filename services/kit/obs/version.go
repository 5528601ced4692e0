package obs

import "runtime/debug"

// Version returns the version of this program for messages: the module's version, and the commit if
// version control recorded one.
func Version() string {
	version, revision := buildVersion()
	if revision == "unknown" {
		return version
	}
	return version + " (" + revision[:min(len(revision), 12)] + ")"
}

// buildVersion returns the version and the commit that the linker recorded. Both may be "unknown"
// in a build outside version control.
func buildVersion() (version, revision string) {
	version, revision = "unknown", "unknown"
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
