package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/cache"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "file with the address and the certificates")
	resync := flag.Duration("resync", 0, "time between two notices of an object that does not change; 0: never")
	flag.Parse()
	if err := run(*kubeconfig, *resync); err != nil {
		fmt.Fprintln(os.Stderr, "oldclient:", err)
		os.Exit(1)
	}
}

func run(kubeconfig string, resync time.Duration) error {
	informers, err := newInformers(kubeconfig, resync)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	return follow(ctx, informers)
}

// follow runs the informers until ctx is done, and prints their notices.
func follow(ctx context.Context, informers map[string]cache.SharedIndexInformer) error {
	out := &printer{encoder: json.NewEncoder(os.Stdout)}
	var running sync.WaitGroup
	defer running.Wait()
	var synced []cache.InformerSynced
	for resource, informer := range informers {
		registration, err := informer.AddEventHandler(out.handler(resource))
		if err != nil {
			return err
		}
		synced = append(synced, registration.HasSynced)
		running.Go(func() { informer.Run(ctx.Done()) })
	}
	if cache.WaitForCacheSync(ctx.Done(), synced...) {
		out.print(notice{Type: "SYNCED"})
	}
	<-ctx.Done()
	return nil
}

// notice is a line of the output.
type notice struct {
	Type     string `json:"type"`
	Resource string `json:"resource,omitempty"`
	Key      string `json:"key,omitempty"`     // NAMESPACE/NAME, or NAME
	Version  string `json:"version,omitempty"` // the resource version
}

// printer prints notices. It is safe for concurrent use.
type printer struct {
	mu      sync.Mutex
	encoder *json.Encoder
}

func (p *printer) print(n notice) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.encoder.Encode(n) // it fails only if the test that reads the output has ended
}

func (p *printer) handler(resource string) cache.ResourceEventHandler {
	about := func(eventType string, object any) {
		if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = last.Obj
		}
		n := notice{Type: eventType, Resource: resource}
		if accessor, err := meta.Accessor(object); err == nil {
			n.Key, n.Version = cache.MetaObjectToName(accessor).String(), accessor.GetResourceVersion()
		}
		p.print(n)
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { about("ADDED", object) },
		UpdateFunc: func(_, object any) { about("UPDATED", object) },
		DeleteFunc: func(object any) { about("DELETED", object) },
	}
}
