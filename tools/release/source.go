package main

import (
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// date sets the commit from the last commit of the sources, the time from epoch or that commit, and the
// version, unless it is set, from the commit's tag or time. Sources outside of a repository need the version
// and the epoch.
func (r *release) date(ctx context.Context, epoch string) error {
	commit, err := git(ctx, r.root, "log", "-1", "--format=%H %ct")
	if err != nil && (r.version == "" || epoch == "") {
		return fmt.Errorf("%w: outside of a repository -version and SOURCE_DATE_EPOCH are required", err)
	}
	hash, committed, _ := strings.Cut(commit, " ")
	seconds, err := strconv.ParseInt(cmp.Or(epoch, committed), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: want seconds since 1970: %w", err)
	}
	r.commit, r.time = hash, time.Unix(seconds, 0).UTC()
	if r.version != "" {
		return nil
	}
	if tag, err := git(ctx, r.root, "describe", "--tags", "--exact-match", "--match=v[0-9]*"); err == nil {
		r.version = strings.ReplaceAll(strings.TrimPrefix(tag, "v"), "-", "~") // 1.0.0~rc1 is older than 1.0.0
		return nil
	}
	// Such versions sort by time, and before all released versions.
	r.version = "0~" + r.time.Format("20060102150405") + "." + hash[:12]
	return nil
}

func git(ctx context.Context, root string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "git", append([]string{"-C", root}, args...)...).Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return strings.TrimSpace(string(out)), nil
}
