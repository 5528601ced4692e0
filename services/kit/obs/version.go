package obs

import "runtime/debug"

// Version returns the version of this program as people write it: the module's version, and the commit where version control recorded one.
func Version() string {
	version, revision := buildVersion()
	if revision == "unknown" {
		return version
	}
	return version + " (" + revision[:min(len(revision), 12)] + ")"
}

// buildVersion reads what the linker recorded; both may be "unknown" in a build
// outside of version control.
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
