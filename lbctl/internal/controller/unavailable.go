package controller

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/balancer"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
)

// isUnavailable reports whether a provider, or the allocator behind it, has not answered a call. Such an error says
// nothing about the service.
func isUnavailable(err error) bool {
	code := apierr.Code(err)
	return code == codes.Unavailable || code == codes.DeadlineExceeded
}

// awaitProvider records a service for which a provider has not answered.
func (c *Controller) awaitProvider(name object.Name, svc *corev1.Service, err error) {
	c.outage.Failed(err, "service", name.String())
	c.mu.Lock()
	defer c.mu.Unlock()
	class := balancer.ClassOf(svc)
	if c.unanswered[class] == nil {
		c.unanswered[class] = map[object.Name]bool{}
	}
	c.unanswered[class][name] = true
}

// providerAnswered makes the services due that wait for the provider of a service. The provider has answered about
// that service, so it will probably answer about the others.
func (c *Controller) providerAnswered(svc *corev1.Service) {
	c.mu.Lock()
	class := balancer.ClassOf(svc)
	waiting := c.unanswered[class]
	delete(c.unanswered, class)
	none := len(c.unanswered) == 0
	c.mu.Unlock()
	for name := range waiting {
		c.queue.Add(name, 1)
	}
	if none {
		c.outage.Over()
	}
}

// watchProviders makes one service due for each class with a provider that has not answered, at each PoolsInterval until ctx
// is done. The services would otherwise wait for the end of their own pauses, which grow. To try all of them would
// load a provider that has just begun to answer. A different service is tried each time, because a provider can also
// fail to answer about one service only.
func (c *Controller) watchProviders(ctx context.Context) {
	ticker := time.NewTicker(c.cfg.PoolsInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			c.retryOneOfEachClass()
		}
	}
}

func (c *Controller) retryOneOfEachClass() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, waiting := range c.unanswered {
		for name := range waiting { // in random order
			c.queue.Add(name, 1)
			break
		}
	}
}

// forgetUnanswered removes a service from those that wait for a provider. The caller holds mu.
func (c *Controller) forgetUnanswered(name object.Name) {
	for class, waiting := range c.unanswered {
		if delete(waiting, name); len(waiting) == 0 {
			delete(c.unanswered, class)
		}
	}
}

// mayBeAsMade reports whether the load balancer of a service may still be as the condition says: a provider has made
// it, and nothing that it depends on is known to have changed since. A new leader does not know whether something
// has changed while none led.
func (c *Controller) mayBeAsMade(name object.Name, svc *corev1.Service) bool {
	if !saysMade(svc) || len(svc.GetStatus().GetLoadBalancer().GetIngress()) == 0 {
		return false
	}
	told, known := c.lastCall(name)
	return !known || told.asked == askedOf(svc)
}
