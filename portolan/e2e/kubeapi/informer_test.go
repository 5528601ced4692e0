package kubeapi

import (
	"context"
	"fmt"
	"testing"
	"time"

	kubev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/features"
	featurestesting "k8s.io/client-go/features/testing"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"portolan.dev/services/kit/kittest"
)

// clientOf returns a client of client-go that sends and reads a media type.
func clientOf(i *installation, mediaType string) *kubernetes.Clientset {
	i.Helper()
	config := &rest.Config{Host: i.url, ContentConfig: rest.ContentConfig{ContentType: mediaType, AcceptContentTypes: mediaType}, QPS: 1000, Burst: 1000}
	if i.certs != nil {
		files := i.certs.Issue("operator", lifetime)
		config.TLSClientConfig = rest.TLSClientConfig{CertFile: files.Cert, KeyFile: files.Key, CAFile: files.CA}
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		i.Fatal(err)
	}
	return client
}

// TestInformers has the informers of client-go follow the objects, with and without WatchList, in JSON and
// in protobuf.
func TestInformers(t *testing.T) {
	i := install(t, true)
	for _, watchList := range []bool{true, false} {
		for _, mediaType := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
			t.Run(fmt.Sprintf("watch list %v %s", watchList, mediaType), func(t *testing.T) {
				featurestesting.SetFeatureDuringTest(t, features.WatchListClient, watchList)
				follow(t, clientOf(i, mediaType))
			})
		}
	}
}

func follow(t *testing.T, client *kubernetes.Clientset) {
	t.Helper()
	const total = 30
	for n := range total {
		service := &kubev1.Service{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("s%d", n)}, Spec: kubev1.ServiceSpec{Ports: []kubev1.ServicePort{{Port: 80}}}}
		if _, err := client.CoreV1().Services("default").Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	factory := informers.NewSharedInformerFactory(client, time.Hour)
	services := factory.Core().V1().Services()
	synced := []cache.InformerSynced{
		services.Informer().HasSynced, factory.Core().V1().Namespaces().Informer().HasSynced, factory.Core().V1().Nodes().Informer().HasSynced,
		factory.Core().V1().Pods().Informer().HasSynced, factory.Discovery().V1().EndpointSlices().Informer().HasSynced,
		factory.Coordination().V1().Leases().Informer().HasSynced, factory.Events().V1().Events().Informer().HasSynced,
		factory.Networking().V1().NetworkPolicies().Informer().HasSynced, factory.Networking().V1().ServiceCIDRs().Informer().HasSynced,
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer factory.Shutdown()
	defer cancel()
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(t.Context().Done(), synced...) {
		t.Fatal("not synced")
	}
	awaitServices(t, services.Lister(), total) // a list from resource version 0 may lack the newest
	for n := range total {
		if err := client.CoreV1().Services("default").Delete(t.Context(), fmt.Sprintf("s%d", n), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	awaitServices(t, services.Lister(), 0)
}

// awaitServices waits until an informer has a number of services.
func awaitServices(t *testing.T, lister listers.ServiceLister, total int) {
	t.Helper()
	kittest.Eventually(t, "the services", func() error {
		if found, err := lister.List(labels.Everything()); err != nil || len(found) != total {
			return fmt.Errorf("%d services, want %d; %v", len(found), total, err)
		}
		return nil
	})
}
