package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/discovery"
	_ "github.com/prometheus/prometheus/discovery/kubernetes"
	"github.com/prometheus/prometheus/discovery/targetgroup"
	"go.yaml.in/yaml/v2"
)

// period is the least time between two lines.
const period = 200 * time.Millisecond

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "discovery:", err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) != 2 {
		return errors.New("usage: discovery FILE")
	}
	jobs, err := read(os.Args[1])
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	registry := prometheus.NewRegistry()
	metrics, err := discovery.CreateAndRegisterSDMetrics(registry)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	manager := discovery.NewManager(ctx, log, registry, metrics, discovery.Updatert(period))
	if manager == nil {
		return errors.New("no manager")
	}
	if err := manager.ApplyConfig(jobs); err != nil {
		return err
	}
	go func() { _ = manager.Run() }() // returns when ctx is done
	out := json.NewEncoder(os.Stdout)
	for {
		select {
		case <-ctx.Done():
			return nil
		case groups := <-manager.SyncCh():
			if err := out.Encode(targets(groups)); err != nil {
				return err
			}
		}
	}
}

// job is an item of scrape_configs, without the fields for scraping.
type job struct {
	Name      string            `yaml:"job_name"`
	Discovery discovery.Configs `yaml:"-"`
}

// UnmarshalYAML implements yaml.Unmarshaler. Each linked kind of discovery has a field of its own in the
// item, such as kubernetes_sd_configs.
func (j *job) UnmarshalYAML(unmarshal func(any) error) error {
	return discovery.UnmarshalYAMLWithInlineConfigs(j, unmarshal)
}

// read reads the jobs of a configuration.
func read(path string) (map[string]discovery.Configs, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var config struct {
		Jobs []job `yaml:"scrape_configs"`
	}
	if err := yaml.UnmarshalStrict(text, &config); err != nil {
		return nil, err
	}
	jobs := map[string]discovery.Configs{}
	for _, j := range config.Jobs {
		jobs[j.Name] = j.Discovery
	}
	return jobs, nil
}

// targets returns the labels of the targets of each job.
func targets(groups map[string][]*targetgroup.Group) map[string][]model.LabelSet {
	found := map[string][]model.LabelSet{}
	for name, ofJob := range groups {
		found[name] = []model.LabelSet{}
		for _, group := range ofJob {
			for _, target := range group.Targets {
				found[name] = append(found[name], group.Labels.Merge(target))
			}
		}
	}
	return found
}
