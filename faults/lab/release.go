package lab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"portolan.dev/portolan/e2e/labtest"
	"portolan.dev/services/kit/kittest"
)

// previousRelease is the commit that counts as the previous release if there is no tag. It is the
// first commit that is known to keep all promises of package check: an older registry answers some
// writes from an outdated view, and an older lbctl and an older allocator give an address of a load balancer
// to two services. Choose a newer commit if bugs of this one affect installations
// with daemons of both releases. Also choose a newer one after a migration of the schema, because a
// registry or an allocator of the previous release then refuses to start.
const previousRelease = "f336602dee7a10d377b41f14c1c5733881a0bc11"

// ErrNoRelease is returned if the previous release cannot be built because the clone lacks the
// history.
var ErrNoRelease = errors.New("the previous release is not available: it needs git and a clone with history (git fetch --unshallow --tags)")

// PrepareRelease builds the previous release where go test has started the process. TestMain calls it
// before Main, because a release needs versions of modules that may have to be downloaded, and a lab has
// no way to other networks.
func PrepareRelease() {
	if labtest.Outside() {
		_, _ = buildRelease() // BuildRelease tries again, and returns the error to a test
	}
}

// BuildRelease builds the daemons of the previous release, which Downgrade needs. It stores them in
// the user's cache, and builds nothing if they are there already.
func (l *Lab) BuildRelease() (err error) {
	l.releaseFolder, err = buildRelease()
	return err
}

// buildRelease returns the folder with the daemons of the previous release.
func buildRelease() (folder string, err error) {
	commit, err := findRelease()
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	folder = filepath.Join(cache, "portolan", "release", commit)
	if _, err := os.Stat(folder); err == nil {
		return folder, nil
	}
	if err := os.MkdirAll(filepath.Dir(folder), 0o755); err != nil {
		return "", err
	}
	source, err := os.MkdirTemp(filepath.Dir(folder), "building-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(source) }()
	return folder, buildCommit(commit, source, folder)
}

// findRelease returns the commit of the newest tag before HEAD, or previousRelease if there is no
// tag.
func findRelease() (commit string, err error) {
	for _, name := range []string{"", previousRelease} {
		if name == "" {
			if name, err = git("describe", "--tags", "--abbrev=0", "HEAD^"); err != nil {
				continue
			}
		}
		if commit, err = git("rev-parse", "--verify", "--quiet", name+"^{commit}"); err == nil {
			return commit, nil
		}
	}
	return "", fmt.Errorf("%w: %w", ErrNoRelease, err)
}

// git runs git in the repository, which may belong to another user.
func git(args ...string) (string, error) {
	out, err := exec.Command("git", append([]string{"-c", "safe.directory=*"}, args...)...).Output()
	return strings.TrimSpace(string(out)), err
}

// buildCommit builds the daemons of a commit. It creates folder only after all daemons are built.
// It uses the folder source for the commit's source files.
func buildCommit(commit, source, folder string) error {
	archive := filepath.Join(source, "archive.tar")
	top, err := git("rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	if _, err := git("-C", top, "archive", "-o", archive, commit); err != nil {
		return err
	}
	if out, err := exec.Command("tar", "-xf", archive, "-C", source).CombinedOutput(); err != nil {
		return fmt.Errorf("tar: %w\n%s", err, out)
	}
	built := filepath.Join(source, "built")
	var programs []string
	for daemon := range ports {
		programs = append(programs, fmt.Sprintf("./%[1]s/cmd/%[1]s", daemon))
	}
	if err := kittest.BuildTree(source, built, programs...); err != nil {
		return err
	}
	// The folder exists if another process has built the release in the meantime.
	if err := os.Rename(built, folder); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil
}

// Downgrade stops the daemon as a rolling upgrade does, and starts the daemon of the previous
// release in its place. It returns ErrNoRelease if BuildRelease has not been called.
func (m *Machine) Downgrade() error {
	if m.lab.releaseFolder == "" {
		return ErrNoRelease
	}
	m.switchRelease(m.lab.releaseFolder)
	return nil
}

// Upgrade undoes Downgrade.
func (m *Machine) Upgrade() error {
	m.switchRelease("")
	return nil
}

// switchRelease stops the daemon, and starts the daemon in a release's folder. An empty folder
// means the current release. If the daemon was killed, the next Start uses the release.
func (m *Machine) switchRelease(release string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.releaseFolder = release
	if m.process != nil {
		m.process.Stop()
		m.process = m.start()
		m.logs = append(m.logs, m.process.LogFile())
	}
}

// startDaemon starts the daemon of the machine's release.
func (l *Lab) startDaemon(m *Machine) *labtest.Process {
	daemon, flags := programOf(m.Name), l.flags(m)
	if m.releaseFolder == "" {
		return labtest.Start(l, m.Name, daemon, m.Namespace, flags)
	}
	cmd := exec.Command(filepath.Join(m.releaseFolder, daemon), flags...)
	cmd.Dir = l.TempDir()
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	return labtest.Run(l, m.Name, cmd, m.Namespace)
}
