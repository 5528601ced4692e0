package kubeapi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/features"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"portolan.dev/services/kit/yardstick"
)

// gates are the features of client-go, with a choice of WatchList.
type gates struct {
	features.Gates
	watchList bool
}

// Enabled implements features.Gates.
func (g gates) Enabled(feature features.Feature) bool {
	if feature == features.WatchListClient {
		return g.watchList
	}
	return g.Gates.Enabled(feature)
}

// measureInformer measures the time until an informer of client-go has all services.
func (b *bench) measureInformer(ctx context.Context) error {
	i, err := b.install(ctx)
	if err != nil {
		return err
	}
	defer i.Stop()
	usual := features.FeatureGates()
	defer features.ReplaceFeatureGates(usual)
	for _, mediaType := range []string{"json", "vnd.kubernetes.protobuf"} {
		for _, watchList := range []bool{true, false} {
			features.ReplaceFeatureGates(gates{usual, watchList})
			var took []time.Duration
			for range b.rounds + 1 {
				one, err := i.startInformer(ctx, "application/"+mediaType)
				if err != nil {
					return err
				}
				took = append(took, one)
			}
			took = took[1:] // the first one warms up
			slices.Sort(took)
			name := map[bool]string{true: "watchlist", false: "list"}[watchList]
			fmt.Printf("informer of %d services, %s, %s: %.2f s\n", services, mediaType, name, took[len(took)/2].Seconds())
			b.rig.Ratio(fmt.Sprintf("informer10k_%s_%s_seconds", name, mediaType[max(0, len(mediaType)-8):]), took[len(took)/2].Seconds(), yardstick.AtMost(2))
		}
	}
	return nil
}

// startInformer starts an informer of services, and returns the time until it has all.
func (i *installation) startInformer(ctx context.Context, mediaType string) (time.Duration, error) {
	client, err := kubernetes.NewForConfig(&rest.Config{Host: i.url, ContentConfig: rest.ContentConfig{ContentType: mediaType, AcceptContentTypes: mediaType}})
	if err != nil {
		return 0, err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	defer factory.Shutdown()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	all := factory.Core().V1().Services()
	synced := all.Informer().HasSynced
	began := time.Now()
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), synced) {
		return 0, errors.New("the informer does not get in sync")
	}
	took := time.Since(began)
	found, err := all.Lister().List(labels.Everything())
	if err == nil && len(found) != services {
		err = fmt.Errorf("%d services, want %d", len(found), services)
	}
	return took, err
}
