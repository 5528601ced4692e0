package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/vuln/scan"
)

const (
	publicDatabase = "https://vuln.go.dev"
	// reachTimeout bounds the wait for a database that does not answer.
	reachTimeout = 10 * time.Second
)

// database is a database of known vulnerabilities.
type database struct {
	url   string
	named bool // the user has named it, so it must be readable
}

// checkVulnerabilities prints the known vulnerabilities of the programs. It returns an error if
// there are any, or if a database that the user named cannot be read.
func checkVulnerabilities(ctx context.Context, out io.Writer, db database, programs []string) error {
	modified, err := lastModified(ctx, db.url)
	switch {
	case err != nil && db.named:
		return fmt.Errorf("the database of vulnerabilities %s cannot be read: %w", db.url, err)
	case err != nil:
		fmt.Fprintf(out, "NOT CHECKED for known vulnerabilities: the database %s cannot be reached: %v\n", db.url, err)
		fmt.Fprintf(out, "Name a copy or a mirror: VULNDB=file:///FOLDER with the files of %s/vulndb.zip.\n", publicDatabase)
		return nil
	}
	fmt.Fprintf(out, "known vulnerabilities by %s of %s\n", db.url, modified.UTC().Format(time.DateTime))
	var problems []error
	for _, program := range programs {
		fmt.Fprintf(out, "%s: ", filepath.Base(program))
		cmd := scan.Command(ctx, "-mode=binary", "-db", db.url, program)
		cmd.Stdout, cmd.Stderr = out, out
		if err := errors.Join(cmd.Start(), cmd.Wait()); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", program, err))
		}
	}
	return errors.Join(problems...)
}

// lastModified returns the time of the database's latest entry. An error means that the database
// cannot be read.
func lastModified(ctx context.Context, from string) (time.Time, error) {
	const index = "index/db.json"
	var content []byte
	parsed, err := url.Parse(from)
	switch {
	case err != nil:
		return time.Time{}, err
	case parsed.Scheme == "file":
		content, err = os.ReadFile(filepath.Join(filepath.FromSlash(parsed.Path), filepath.FromSlash(index)))
	default:
		content, err = fetch(ctx, strings.TrimRight(from, "/")+"/"+index)
	}
	if err != nil {
		return time.Time{}, err
	}
	var head struct{ Modified time.Time }
	if err := json.Unmarshal(content, &head); err != nil || head.Modified.IsZero() {
		return time.Time{}, fmt.Errorf("%s has no time of its last change", index)
	}
	return head.Modified, nil
}

func fetch(ctx context.Context, file string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, file, nil)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answers %s", res.Status)
	}
	return io.ReadAll(io.LimitReader(res.Body, 1<<20))
}
