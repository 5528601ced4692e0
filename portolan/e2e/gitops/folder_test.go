package gitops

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"portolan.dev/registrar/dir"
	"portolan.dev/services/kit/kittest"
)

// runner returns a runner of a folder with the selector app=shop. Without a change of the folder it does
// nothing for an hour, unless the options say otherwise.
func (i *installation) runner(path string, change ...func(*dir.Options)) *dir.Runner {
	i.Helper()
	options := dir.Options{
		Path: path, Selector: "app=shop", Namespace: "default", Everywhere: true, Interval: time.Hour, Quiet: 20 * time.Millisecond,
		Registry: i.conn, Log: kittest.Logger(i), Metrics: prometheus.NewRegistry(),
	}
	for _, fn := range change {
		fn(&options)
	}
	return dir.New(options)
}

// awaitStatus waits for a status of a runner.
func awaitStatus(t *testing.T, r *dir.Runner, what string, is func(dir.Status) bool) dir.Status {
	t.Helper()
	var status dir.Status
	kittest.Eventually(t, what, func() error {
		if status = r.Status(); !is(status) {
			return fmt.Errorf("the status is %+v", status)
		}
		return nil
	})
	return status
}

// TestFolder adds, changes and removes files of a folder, and breaks one.
func TestFolder(t *testing.T) {
	i := install(t)
	path := t.TempDir()
	write(t, path, map[string]string{
		"web.yaml": service("shop", "web", "shop"), "z/namespace.yml": namespace("shop", "shop"), // applied first, though it is read last
		".git/ignored.yaml": "no manifest", "README.md": "no manifest",
	})
	metrics := prometheus.NewRegistry()
	r := i.runner(path, func(o *dir.Options) { o.Metrics = metrics })
	kittest.Run(t, "folder", r.Run)
	i.await("service/shop/web")
	first := awaitStatus(t, r, "the first status", func(s dir.Status) bool { return s.Created == 2 })
	if first.Files != 2 || first.Objects != 2 || len(first.Problems) != 0 || first.Applied.IsZero() || first.Revision == "" || first.AppliedRevision != first.Revision {
		t.Errorf("the first status is %+v", first)
	}

	write(t, path, map[string]string{"new/api.yaml": service("shop", "api", "shop") + service("shop", "db", "shop")}) // in a new folder
	i.await("service/shop/api", "service/shop/db")
	write(t, path, map[string]string{"new/api.yaml": service("shop", "api", "shop")}) // in a folder that is watched since
	i.await("!service/shop/db", "service/shop/api")

	write(t, path, map[string]string{"broken.yaml": "\n" + service("shop", "more", "shop") + strings.Replace(service("shop", "bad", "shop"), "  ports:", "  portz:", 1)})
	if err := os.Remove(filepath.Join(path, "web.yaml")); err != nil {
		t.Fatal(err)
	}
	broken := awaitStatus(t, r, "the problem", func(s dir.Status) bool { return len(s.Problems) > 0 && s.Files == 3 })
	if p := broken.Problems[0]; len(broken.Problems) != 1 || p.File != "broken.yaml" || p.Line != 22 || p.Field != "spec.portz" || p.Message == "" {
		t.Errorf("the problems are %+v", broken.Problems)
	}
	if broken.AppliedRevision == broken.Revision || broken.Applied.IsZero() {
		t.Errorf("the status of a broken folder is %+v", broken)
	}
	i.expect("service/shop/web", "service/shop/api", "!service/shop/more") // nothing of it was applied or pruned

	write(t, path, map[string]string{"broken.yaml": service("shop", "more", "shop")})
	i.await("service/shop/more", "!service/shop/web", "service/shop/api")
	awaitStatus(t, r, "the recovery", func(s dir.Status) bool { return len(s.Problems) == 0 && s.AppliedRevision == s.Revision })

	want := "# HELP portolan_registrar_dir_changes_total Objects that were changed to be as the folder says, by action (created, configured, pruned).\n" +
		"# TYPE portolan_registrar_dir_changes_total counter\n" +
		"portolan_registrar_dir_changes_total{action=\"configured\"} 0\nportolan_registrar_dir_changes_total{action=\"created\"} 5\nportolan_registrar_dir_changes_total{action=\"pruned\"} 2\n"
	if err := testutil.GatherAndCompare(metrics, strings.NewReader(want), "portolan_registrar_dir_changes_total"); err != nil {
		t.Error(err)
	}
}

// TestFolderThatIsReplaced replaces a folder as ConfigMaps and as git-sync do: by a link to a new version.
func TestFolderThatIsReplaced(t *testing.T) {
	i := install(t)
	path := t.TempDir()
	mount, checkout := filepath.Join(path, "mount"), filepath.Join(path, "checkout")
	write(t, path, map[string]string{
		"mount/..v1/a.yaml": service("default", "mounted", "shop"), "mount/..v2/a.yaml": service("default", "remounted", "shop"),
		"worktrees/v1/b.yaml": service("default", "cloned", "git"), "worktrees/v2/b.yaml": service("default", "pulled", "git"),
	})
	link(t, "..data/a.yaml", filepath.Join(mount, "a.yaml"))
	link(t, "..v1", filepath.Join(mount, "..data"))
	link(t, "worktrees/v1", checkout)
	kittest.Run(t, "mount", i.runner(mount).Run)
	kittest.Run(t, "checkout", i.runner(checkout, func(o *dir.Options) { o.Selector = "app=git" }).Run)
	i.await("service/mounted", "service/cloned")
	link(t, "..v2", filepath.Join(mount, "..data"))
	i.await("service/remounted", "!service/mounted")
	link(t, "worktrees/v2", checkout)
	i.await("service/pulled", "!service/cloned", "service/remounted")
}

// link makes a link, or replaces one at once.
func link(t *testing.T, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path+".new"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// TestFolderWhileTheRegistryIsAway changes a folder while the registry is away. The runner tries again
// until it is back.
func TestFolderWhileTheRegistryIsAway(t *testing.T) {
	i := install(t)
	path := t.TempDir()
	write(t, path, map[string]string{"a.yaml": service("default", "a", "shop")})
	attempts := make(chan error, 100)
	r := i.runner(path, func(o *dir.Options) { o.Attempted = func(err error) { attempts <- err } })
	kittest.Run(t, "folder", r.Run)
	if err := kittest.Receive(t, "the first attempt", attempts); err != nil {
		t.Fatal(err)
	}
	i.stop()
	write(t, path, map[string]string{"a.yaml": service("default", "b", "shop")})
	if err := kittest.Receive(t, "an attempt without a registry", attempts); err == nil || !strings.Contains(err.Error(), "a.yaml: Service default/b: ") {
		t.Errorf("without a registry the error is %v", err)
	}
	i.start(i.network)
	i.await("service/b", "!service/a")
	awaitStatus(t, r, "the recovery", func(s dir.Status) bool { return len(s.Problems) == 0 })
}

// TestFolderTakesBack checks that the periodic read of the folder undoes changes by others.
func TestFolderTakesBack(t *testing.T) {
	i := install(t)
	path := t.TempDir()
	write(t, path, map[string]string{"a.yaml": service("default", "a", "shop")})
	kittest.Run(t, "folder", i.runner(path, func(o *dir.Options) { o.Interval = 50 * time.Millisecond }).Run)
	i.await("service/a")
	i.must("", "delete", "service", "a")
	i.await("service/a")
	i.must(service("default", "stray", "shop"), "apply", "-f", "-")
	i.await("!service/stray")
}

// TestFolderOnce checks the error of a single attempt, and that it changes nothing if it must not.
func TestFolderOnce(t *testing.T) {
	i := install(t)
	i.must(service("default", "old", "shop"), "apply", "-f", "-")
	good := service("default", "web", "shop")
	deployment := "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n"
	for _, c := range []struct {
		name     string
		files    map[string]string
		selector string
		want     string // in the error; empty: none
		then     []string
	}{
		{"empty", map[string]string{"README": ""}, "app=shop", "no manifests", []string{"service/old", "!service/web"}},
		{"other labels", map[string]string{"a.yaml": good, "b.yaml": service("default", "api", "blog")}, "app=shop", "b.yaml: Service default/api: does not match the selector app=shop", []string{"service/old", "!service/web"}},
		{"twice", map[string]string{"a.yaml": good, "b.yaml": good}, "app=shop", "b.yaml: Service default/web: is in the manifests twice", []string{"service/old", "!service/web"}},
		{"no YAML", map[string]string{"a.yaml": good, "b.yaml": "{"}, "app=shop", "b.yaml:1", []string{"service/old", "!service/web"}},
		{"no selector", map[string]string{"a.yaml": good}, "app in", `selector "app in"`, []string{"service/old", "!service/web"}},
		{"refused", map[string]string{"a.yaml": good, "b.yaml": strings.Replace(service("default", "bad", "shop"), "port: 80", "port: 0", 1)}, "app=shop", "b.yaml: Service default/bad: ", []string{"service/old", "service/web"}},
		{"nothing is pruned", map[string]string{"a.yaml": good}, "", "", []string{"service/old", "service/web"}},
		{"other kinds are left out", map[string]string{"a.yaml": good + deployment}, "app=shop", "", []string{"!service/old", "service/web"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := t.TempDir()
			write(t, path, c.files)
			r := i.runner(path, func(o *dir.Options) { o.Selector = c.selector })
			err := r.Once(t.Context())
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("the error is %v, want %q", err, c.want)
			}
			if status := r.Status(); (len(status.Problems) > 0) != (c.want != "") || (len(status.Warnings) > 0) != strings.Contains(c.files["a.yaml"], "Deployment") {
				t.Errorf("the status is %+v", status)
			}
			i.expect(c.then...)
		})
	}
	outside := filepath.Join(t.TempDir(), "outside.yaml")
	write(t, filepath.Dir(outside), map[string]string{"outside.yaml": good})
	for target, want := range map[string]string{outside: "escapes", "/dev/zero": "escapes", "folder": "no regular file", "none": "no such file"} {
		path := t.TempDir()
		write(t, path, map[string]string{"a.yaml": good, "folder/README": ""})
		link(t, target, filepath.Join(path, "link.yaml"))
		if err := i.runner(path).Once(t.Context()); err == nil || !strings.Contains(err.Error(), "link.yaml: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("a link to %s: %v", target, err)
		}
	}
	if err := i.runner(outside).Once(t.Context()); err == nil || !strings.Contains(err.Error(), "give the folder") {
		t.Errorf("a file in place of the folder: %v", err)
	}
	if err := i.runner(filepath.Join(t.TempDir(), "none")).Once(t.Context()); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("a folder that is missing: %v", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := i.runner(t.TempDir()).Once(ended); err == nil {
		t.Error("an attempt that was interrupted is no error")
	}
}

// TestFolderOfOneNamespace prunes in the namespaces of the manifests and in its own only.
func TestFolderOfOneNamespace(t *testing.T) {
	i := install(t)
	i.must(namespace("a", "x")+namespace("b", "x")+namespace("c", "x"), "apply", "-f", "-")
	i.must(service("a", "old", "shop")+service("b", "old", "shop")+service("c", "old", "shop"), "apply", "-f", "-")
	path := t.TempDir()
	write(t, path, map[string]string{"a.yaml": strings.Replace(service("", "web", "shop"), "  namespace: \n", "", 1) + service("b", "web", "shop")})
	if err := i.runner(path, func(o *dir.Options) { o.Namespace, o.Everywhere = "a", false }).Once(t.Context()); err != nil {
		t.Fatal(err)
	}
	i.expect("service/a/web", "service/b/web", "!service/a/old", "!service/b/old", "service/c/old")
}
